// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/accuracy.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <map>
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

class Measurement {
 public:
  Measurement(const Subject& subject, Deadline deadline)
      : passes_(subject, deadline), exact_(passes_.RunInPieces(Exact(passes_.device()))) {}

  // Which exact results have no place in the range of fp32 and bf16: then no arithmetic in these
  // has an answer. Empty when all have one; what fp64 cannot hold either is no such reason.
  std::string BeyondRange() const {
    std::string names;
    for (const auto& group : {GroupOutputs(exact_), GroupGradients(exact_)}) {
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
    const auto naive = NaiveErrors(precision);
    harness::SetNumerics(Fast(precision).allow_tf32);
    try {
      passes_.HalveUntilItFits(
          [&](std::int64_t piece_size) { RunFast(piece_size, naive, accuracy); });
    } catch (const std::exception& error) {
      accuracy.failure = error.what();
    }
    return accuracy;
  }

 private:
  struct NaiveError {
    double error = 0;
    double participants = 0;
  };
  using Errors = std::map<std::string, NaiveError>;

  void RunFast(std::int64_t piece_size, const Errors& naive, Accuracy& accuracy) {
    const Execution execution = Fast(accuracy.precision);
    const kernels::PlanRecorder recorder;
    const Results fast = passes_.Run(execution, piece_size);
    accuracy.num_pieces = (passes_.batch_size() + piece_size - 1) / piece_size;
    accuracy.plans = PlanTexts(recorder.records());
    accuracy.comparisons = Compare(fast, naive);
    const testing::PoisonUninitializedMemory poison;
    accuracy.failure = Difference(passes_.Run(execution, piece_size), fast);
  }

  static void KeepLarger(NaiveError& kept, const NaiveError& other) {
    if (!(other.error <= kept.error)) kept = other;
  }

  const Errors& NaiveErrors(Precision precision) {
    if (const auto known = naive_.find(precision); known != naive_.end()) return known->second;
    Errors errors;
    for (const Execution& execution : Naive(precision)) {
      try {
        for (const auto& comparison : Compare(passes_.RunInPieces(execution), {})) {
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

  static NamedTensors GroupOutputs(const Results& results) { return results.outputs; }
  static NamedTensors GroupGradients(const Results& results) {
    NamedTensors gradients = results.parameter_gradients;
    gradients.insert(results.input_gradients.begin(), results.input_gradients.end());
    return gradients;
  }

  static Comparison CompareOne(const std::string& name, const at::Tensor& actual,
                               const at::Tensor& exact) {
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
  static std::string Difference(const Results& actual, const Results& expected) {
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

  Passes passes_;
  std::map<Precision, Errors> naive_;
  Results exact_;
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
    fail(std::string("reference: ") + error.what(), /*skipped=*/false);
  }
  return accuracies;
}

}  // namespace mixerbench::accuracy
