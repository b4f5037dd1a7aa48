// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/accuracy.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

#include "base/check.h"
#include "harness/device/device.h"
#include "kernels/runtime/plan.h"
#include "tests/support/tensors.h"

namespace mixerbench::accuracy {
namespace {

// Operands of tf32 have three bits more than those of bf16.
constexpr double kTf32Share = 1.0 / 8;
constexpr std::int64_t kMostParts = 8;
constexpr std::int64_t kLeastParts = 3;   // with two there is no middle
constexpr double kFewTokens = 0.5;        // of a gradient: what a few tokens may spoil
constexpr double kLargestState = 1.8e19;  // the root of the largest fp32
constexpr double kCancelled = 1e-2;       // of the largest gradient: less is zero but for rounding

at::ScalarType ActivationType(Precision precision) {
  return precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat;
}

Execution Exact(at::Device device) {
  return {.path = device.is_cuda() ? ExecutionPath::kFast : ExecutionPath::kReference,
          .plain = true};
}

std::vector<Execution> Naive(Precision precision) {
  Execution plain = {.path = ExecutionPath::kFast,
                     .dtype = ActivationType(precision),
                     .allow_tf32 = precision == Precision::kTf32,
                     .plain = true};
  if (precision != Precision::kBf16) return {plain};
  Execution autocast = plain;
  autocast.autocast = true;
  return {plain, autocast};
}

Execution Fast(Precision precision) {
  return {.path = ExecutionPath::kFast,
          .dtype = ActivationType(precision),
          .allow_tf32 = precision == Precision::kTf32};
}

std::vector<std::string> PlanTexts(const std::vector<kernels::PlanRecord>& records) {
  std::vector<std::string> texts;
  for (const auto& record : records) {
    const std::string text = record.function + " " + record.forward + "/" + record.backward;
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  return texts;
}

NamedTensors GroupOutputs(const Results& results) { return results.outputs; }

NamedTensors GroupGradients(const Results& results) {
  NamedTensors gradients = results.parameter_gradients;
  gradients.insert(results.input_gradients.begin(), results.input_gradients.end());
  return gradients;
}

Comparison CompareOne(const std::string& name, const at::Tensor& actual, const at::Tensor& exact) {
  Require(actual.sizes() == exact.sizes(), name + " has the shape of the reference");
  const at::Tensor squares = (actual.to(at::kDouble) - exact).square();
  const double sum = squares.sum().item<double>();
  const double fourths = squares.square().sum().item<double>();
  return {.name = name,
          .num_elements = exact.numel(),
          .norm = exact.norm().item<double>(),
          .error = std::sqrt(sum),
          .naive_participants = fourths > 0 ? sum * sum / fourths : 1};
}

// Names what is not the same in every bit.
std::string Difference(const Results& actual, const Results& expected) {
  std::string names;
  const auto collect = [&](const NamedTensors& a, const NamedTensors& b) {
    for (const auto& [name, value] : b) {
      if (!a.at(name).equal(value)) names += (names.empty() ? "" : ", ") + name;
    }
  };
  collect(actual.outputs, expected.outputs);
  collect(actual.input_gradients, expected.input_gradients);
  collect(actual.parameter_gradients, expected.parameter_gradients);
  return names.empty() ? "" : "differs when run again in poisoned memory: " + names;
}

// Without the stack of calls that errors of ATen carry.
std::string FirstLine(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

// The exact results of a part of the batch, and how far plain ATen is from them.
class Reference {
 public:
  Reference(Passes& passes, const Part& part)
      : passes_(passes), part_(part), exact_(passes.RunInPieces(Exact(passes.device()), part)) {}

  const Results& exact() const { return exact_; }

  // Throws what plain ATen does.
  void MeasureNaive(Precision precision) { NaiveErrors(precision); }

  // Of what the fast path returned in that precision.
  std::vector<Comparison> Compare(const Results& fast, Precision precision) {
    return Compare(fast, NaiveErrors(precision));
  }

 private:
  struct NaiveError {
    double error = 0;
    double participants = 0;
  };
  using Errors = std::map<std::string, NaiveError>;

  static void KeepLarger(NaiveError& kept, const NaiveError& other) {
    if (!(other.error <= kept.error)) kept = other;
  }

  const Errors& NaiveErrors(Precision precision) {
    if (const auto known = naive_.find(precision); known != naive_.end()) return known->second;
    Errors errors;
    for (const Execution& execution : Naive(precision)) {
      try {
        for (const auto& comparison : Compare(passes_.RunInPieces(execution, part_), Errors{})) {
          KeepLarger(errors[comparison.name], {comparison.error, comparison.naive_participants});
        }
      } catch (const c10::OutOfMemoryError&) {
        throw;
      } catch (const std::exception&) {
        // Code that mixes dtypes by hand is not for autocast: one measure less, no tolerance more.
        if (!execution.autocast) throw;
      }
    }
    if (precision == Precision::kTf32) {
      for (const auto& [name, error] : NaiveErrors(Precision::kBf16)) {
        KeepLarger(errors[name], {kTf32Share * error.error, error.participants});
      }
    }
    return naive_.emplace(precision, std::move(errors)).first->second;
  }

  std::vector<Comparison> Compare(const Results& actual, const Errors& naive) const {
    std::vector<Comparison> all;
    for (const auto& [actual_group, exact_group] :
         {std::pair{GroupOutputs(actual), GroupOutputs(exact_)},
          std::pair{GroupGradients(actual), GroupGradients(exact_)}}) {
      std::vector<Comparison> group;
      double largest = 0;
      for (const auto& [name, exact] : exact_group) {
        group.push_back(CompareOne(name, actual_group.at(name), exact));
        largest = std::max(largest, group.back().norm);
        if (naive.empty()) continue;
        group.back().naive_error = naive.at(name).error;
        group.back().naive_participants = naive.at(name).participants;
      }
      for (auto& comparison : group) {
        comparison.largest = largest;
        all.push_back(std::move(comparison));
      }
    }
    return all;
  }

  Passes& passes_;
  Part part_;
  Results exact_;
  std::map<Precision, Errors> naive_;
};

class Measurement {
 public:
  Measurement(const Subject& subject, Deadline deadline)
      : passes_(subject, deadline), whole_(passes_, Part{}) {}

  // Which exact results have no place in the range of fp32 and bf16: then no arithmetic in these
  // has an answer. Empty when all have one; what fp64 cannot hold either is no such reason.
  std::string BeyondRange() const {
    std::string names;
    for (const auto& group : {GroupOutputs(whole_.exact()), GroupGradients(whole_.exact())}) {
      for (const auto& [name, exact] : group) {
        if (exact.numel() == 0) continue;
        const double largest = exact.abs().max().item<double>();
        if (!std::isfinite(largest) || largest <= std::numeric_limits<float>::max()) continue;
        names += (names.empty() ? "" : ", ") + name;
      }
    }
    return names.empty() ? "" : "left out: exact values are beyond the range of fp32: " + names;
  }

  Accuracy Of(Precision precision) {
    Accuracy accuracy{.precision = precision};
    whole_.MeasureNaive(precision);
    harness::SetNumerics(Fast(precision).allow_tf32);
    try {
      passes_.HalveUntilItFits([&](std::int64_t piece_size) { RunFast(piece_size, accuracy); });
    } catch (const std::exception& error) {
      accuracy.failure = FirstLine(error);
    }
    if (const std::string reason = WithoutMeasure(accuracy); !reason.empty()) {
      return Failure(precision, reason, /*skipped=*/true);
    }
    return accuracy;
  }

 private:
  void RunFast(std::int64_t piece_size, Accuracy& accuracy) {
    const Precision precision = accuracy.precision;
    const Execution execution = Fast(precision);
    Results fast;
    {
      const kernels::PlanRecorder recorder;
      fast = passes_.Run(execution, piece_size);
      accuracy.plans = PlanTexts(recorder.records());
    }
    accuracy.num_pieces = (passes_.batch_size() + piece_size - 1) / piece_size;
    {
      const testing::PoisonUninitializedMemory poison;
      accuracy.failure = Difference(passes_.Run(execution, piece_size), fast);
    }
    accuracy.comparisons = whole_.Compare(fast, precision);
    JudgeByParts(piece_size, accuracy);
  }

  // A gradient that is off by more than it may, but not by as much as a missing one, is judged by
  // the median of parts of the batch: the luck of a few tokens is in few parts, a fault in all.
  void JudgeByParts(std::int64_t piece_size, Accuracy& accuracy) {
    const std::int64_t num_parts = std::min<std::int64_t>(passes_.batch_size(), kMostParts);
    if (num_parts < kLeastParts) return;
    std::map<std::string, std::vector<Comparison>> parts;
    for (const Comparison& c : accuracy.comparisons) {
      const bool is_gradient = !whole_.exact().outputs.contains(c.name);
      if (is_gradient && Ratio(c) > 1 && c.error <= kFewTokens * c.norm) parts[c.name];
    }
    if (parts.empty()) return;
    const Execution execution = Fast(accuracy.precision);
    for (std::int64_t i = 0; i < num_parts; ++i) {
      const Part part{.index = i, .count = num_parts};
      Reference reference(passes_, part);
      harness::SetNumerics(execution.allow_tf32);
      for (Comparison& c :
           reference.Compare(passes_.Run(execution, piece_size, part), accuracy.precision)) {
        if (const auto found = parts.find(c.name); found != parts.end()) {
          found->second.push_back(std::move(c));
        }
      }
    }
    for (Comparison& c : accuracy.comparisons) {
      if (const auto found = parts.find(c.name); found != parts.end()) {
        c = MedianOf(std::move(found->second));
      }
    }
  }

  // The one in the middle by ratio, of an even number the larger.
  static Comparison MedianOf(std::vector<Comparison> parts) {
    const auto middle = parts.begin() + static_cast<std::ptrdiff_t>(parts.size() / 2);
    std::nth_element(parts.begin(), middle, parts.end(),
                     [](const auto& a, const auto& b) { return Ratio(a) < Ratio(b); });
    Comparison median = *middle;
    median.num_parts = std::ssize(parts);
    return median;
  }

  // Why what is wrong says nothing of the fast path: states whose squares have no place in fp32, or
  // a precision in which plain ATen has no digit right either. Empty when nothing is wrong.
  std::string WithoutMeasure(const Accuracy& accuracy) const {
    for (const Comparison& c : accuracy.comparisons) {
      if (Ratio(c) <= 1) continue;
      if (!std::isfinite(c.error)) {
        const double largest = passes_.LargestState();
        if (largest <= kLargestState) return {};
        std::ostringstream text;
        text.precision(2);
        text << "left out: exact states reach " << largest << ", whose squares are beyond fp32";
        return text.str();
      }
      if (c.naive_error > c.norm / 2 && c.norm > kCancelled * c.largest) {
        return "left out: plain ATen in this precision is off by more than half: " + c.name;
      }
    }
    return {};
  }

  Passes passes_;
  Reference whole_;
};

}  // namespace

std::vector<Accuracy> Measure(const Subject& subject, const std::vector<Precision>& precisions,
                              Deadline deadline) {
  std::vector<Accuracy> accuracies;
  const auto fail = [&](const std::string& reason, bool skipped) {
    accuracies.clear();
    for (const Precision precision : precisions) {
      accuracies.push_back(Failure(precision, reason, skipped));
    }
  };
  try {
    Measurement measurement(subject, deadline);
    if (const std::string reason = measurement.BeyondRange(); !reason.empty()) {
      fail(reason, /*skipped=*/true);
      return accuracies;
    }
    for (const Precision precision : precisions) accuracies.push_back(measurement.Of(precision));
  } catch (const DeadlineReached&) {
    for (std::size_t i = accuracies.size(); i < precisions.size(); ++i) {
      accuracies.push_back(Failure(precisions[i], std::string(kTimeLimitReached)));
    }
  } catch (const c10::OutOfMemoryError&) {
    fail("the reference of one sequence does not fit in memory", /*skipped=*/true);
  } catch (const std::exception& error) {
    fail("reference: " + FirstLine(error), /*skipped=*/false);
  }
  return accuracies;
}

}  // namespace mixerbench::accuracy
