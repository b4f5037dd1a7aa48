// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/accuracy.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/check.h"
#include "harness/device.h"
#include "harness/plain_products.h"
#include "kernels/plan.h"
#include "tests/support/tensors.h"

namespace mixerbench::accuracy {
namespace {

// Operands of tf32 have three bits more than those of bf16.
constexpr double kTf32Share = 1.0 / 8;

at::ScalarType ActivationType(Precision precision) {
  return precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat;
}

struct Execution {
  ExecutionPath path = ExecutionPath::kReference;
  at::ScalarType dtype = at::kDouble;
  bool allow_tf32 = false;
  bool plain = false;  // without device code
  bool autocast = false;
};

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

// FNV-1a: a seed for everything that has a name.
std::uint64_t Seed(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash >> 1;
}

std::vector<std::string> PlanTexts(const std::vector<kernels::PlanRecord>& records) {
  std::vector<std::string> texts;
  for (const auto& record : records) {
    const std::string text = record.function + " " + record.forward + "/" + record.backward;
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  return texts;
}

struct Results {
  NamedTensors outputs;              // [B,...]
  NamedTensors input_gradients;      // [B,...]
  NamedTensors parameter_gradients;  // summed over sequences
};

class Measurement {
 public:
  explicit Measurement(const Subject& subject)
      : subject_(subject),
        batch_size_(subject.inputs().begin()->second.size(0)),
        device_(subject.inputs().begin()->second.device()),
        exact_(RunInPieces(Exact(device_))) {}

  Accuracy Of(Precision precision) {
    Accuracy accuracy{.precision = precision};
    const auto naive = NaiveErrors(precision);
    const Execution fast_execution = Fast(precision);
    harness::SetNumerics(fast_execution.allow_tf32);
    try {
      const kernels::PlanRecorder recorder;
      const Results fast = RunSequences(fast_execution, 0, batch_size_);
      accuracy.plans = PlanTexts(recorder.records());
      accuracy.comparisons = Compare(fast, naive);
      const testing::PoisonUninitializedMemory poison;
      accuracy.failure = Difference(RunSequences(fast_execution, 0, batch_size_), fast);
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

  // The reference; halves the pieces of the batch until they fit in memory.
  Results RunInPieces(const Execution& execution) {
    harness::SetNumerics(execution.allow_tf32);
    for (std::int64_t size = batch_size_;; size = (size + 1) / 2) {
      try {
        Results results;
        for (std::int64_t first = 0; first < batch_size_; first += size) {
          Append(results, RunSequences(execution, first, std::min(size, batch_size_ - first)));
        }
        return results;
      } catch (const c10::OutOfMemoryError&) {
        if (size == 1) throw;
      }
    }
  }

  static void Append(Results& results, const Results& piece) {
    const auto append = [](NamedTensors& all, const NamedTensors& part, const auto& join) {
      for (const auto& [name, value] : part) {
        const auto [place, is_new] = all.try_emplace(name, value);
        if (!is_new) place->second = join(place->second, value);
      }
    };
    const auto cat = [](const at::Tensor& a, const at::Tensor& b) { return at::cat({a, b}); };
    append(results.outputs, piece.outputs, cat);
    append(results.input_gradients, piece.input_gradients, cat);
    append(results.parameter_gradients, piece.parameter_gradients, std::plus<at::Tensor>());
  }

  Results RunSequences(const Execution& execution, std::int64_t first, std::int64_t count) {
    std::optional<harness::PlainProducts> plain;
    if (execution.plain) plain.emplace(device_.type(), execution.autocast);

    NamedTensors leaves;
    for (const auto& [name, value] : subject_.inputs()) {
      leaves[name] = value.narrow(0, first, count)
                         .to(subject_.InputType(name, execution.dtype))
                         .detach()
                         .requires_grad_(true);
    }
    const auto parameters = subject_.Parameters(execution.dtype);
    for (const auto& [name, parameter] : parameters) parameter.mutable_grad().reset();

    const auto outputs = subject_.Run(leaves, first, execution.path, execution.dtype);
    torch::autograd::variable_list roots, weights;
    Results results;
    for (const auto& [name, output] : outputs) {
      results.outputs[name] = output.detach();
      if (!output.requires_grad()) continue;
      roots.push_back(output);
      weights.push_back(Weight(name, output).narrow(0, first, count).to(output.scalar_type()));
    }
    torch::autograd::backward(roots, weights);

    const auto gradient = [](const at::Tensor& leaf) {
      return leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf);
    };
    for (const auto& [name, leaf] : leaves) results.input_gradients["d " + name] = gradient(leaf);
    for (const auto& [name, parameter] : parameters) {
      results.parameter_gradients["d " + name] = gradient(parameter);
      parameter.mutable_grad().reset();
    }
    return results;
  }

  // Of the whole batch, representable in every type.
  const at::Tensor& Weight(const std::string& name, const at::Tensor& output) {
    at::Tensor& weight = weights_[name];
    if (!weight.defined()) {
      auto sizes = output.sizes().vec();
      sizes[0] = batch_size_;
      weight = testing::RandomNormal(sizes, Seed(name), at::kBFloat16, device_);
    }
    return weight;
  }

  static void KeepLarger(NaiveError& kept, const NaiveError& other) {
    if (!(other.error <= kept.error)) kept = other;
  }

  const Errors& NaiveErrors(Precision precision) {
    if (const auto known = naive_.find(precision); known != naive_.end()) return known->second;
    Errors errors;
    for (const Execution& execution : Naive(precision)) {
      try {
        for (const auto& comparison : Compare(RunInPieces(execution), {})) {
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

  const Subject& subject_;
  std::int64_t batch_size_;
  at::Device device_;
  NamedTensors weights_;
  std::map<Precision, Errors> naive_;
  Results exact_;
};

}  // namespace

std::vector<Accuracy> Measure(const Subject& subject, const std::vector<Precision>& precisions) {
  std::vector<Accuracy> accuracies;
  const auto fail = [&](const std::string& reason, bool skipped) {
    accuracies.clear();
    for (const Precision precision : precisions) {
      accuracies.push_back(Failure(precision, reason, skipped));
    }
  };
  try {
    Measurement measurement(subject);
    for (const Precision precision : precisions) accuracies.push_back(measurement.Of(precision));
  } catch (const c10::OutOfMemoryError&) {
    fail("the reference of one sequence does not fit in memory", /*skipped=*/true);
  } catch (const std::exception& error) {
    fail(std::string("reference: ") + error.what(), /*skipped=*/false);
  }
  return accuracies;
}

}  // namespace mixerbench::accuracy
