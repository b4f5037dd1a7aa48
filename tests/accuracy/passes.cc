// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/passes.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include "harness/device/device.h"
#include "harness/device/plain_products.h"
#include "tests/support/tensors.h"

namespace mixerbench::accuracy {
namespace {

// FNV-1a: a seed for everything that has a name.
std::uint64_t Seed(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash >> 1;
}

void Append(Results& results, const Results& piece) {
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

// `weight` [b,...] of sequences from number `first` on, zero for those outside of the part.
at::Tensor InPart(const at::Tensor& weight, std::int64_t first, const Part& part) {
  if (part.count == 1) return weight;
  const at::Tensor numbers =
      at::arange(first, first + weight.size(0), weight.options().dtype(at::kLong));
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(weight.dim()), 1);
  sizes[0] = weight.size(0);
  return weight * numbers.remainder(part.count).eq(part.index).view(sizes);
}

// Counts operations of this thread that call no other one.
class OperationCounter {
 public:
  OperationCounter()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(Begin, End).scopes({at::RecordScope::FUNCTION}))) {
    count_ = 0;
  }
  ~OperationCounter() { at::removeCallback(handle_); }
  OperationCounter(const OperationCounter&) = delete;
  OperationCounter& operator=(const OperationCounter&) = delete;

  std::int64_t count() const { return count_; }

 private:
  struct Operation final : at::ObserverContext {
    Operation* outer = nullptr;
    bool calls_others = false;
  };

  static std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction&) {
    auto operation = std::make_unique<Operation>();
    operation->outer = innermost_;
    if (innermost_ != nullptr) innermost_->calls_others = true;
    innermost_ = operation.get();
    return operation;
  }

  static void End(const at::RecordFunction&, at::ObserverContext* context) {
    const auto* operation = static_cast<const Operation*>(context);
    if (!operation->calls_others) ++count_;
    innermost_ = operation->outer;
  }

  static thread_local Operation* innermost_;
  static thread_local std::int64_t count_;
  at::CallbackHandle handle_;
};

thread_local OperationCounter::Operation* OperationCounter::innermost_ = nullptr;
thread_local std::int64_t OperationCounter::count_ = 0;

}  // namespace

Passes::Passes(const Subject& subject, Deadline deadline)
    : subject_(subject),
      deadline_(deadline),
      batch_size_(subject.inputs().begin()->second.size(0)),
      device_(subject.inputs().begin()->second.device()) {}

Results Passes::Run(const Execution& execution, std::int64_t piece_size, const Part& part) {
  Results results;
  ForEachPiece(piece_size, [&](std::int64_t first, std::int64_t count) {
    Append(results, RunSequences(execution, first, count, part));
  });
  return results;
}

void Passes::ForEachPiece(std::int64_t piece_size,
                          const std::function<void(std::int64_t, std::int64_t)>& run) const {
  for (std::int64_t first = 0; first < batch_size_; first += piece_size) {
    run(first, std::min(piece_size, batch_size_ - first));
  }
}

void Passes::HalveUntilItFits(const std::function<void(std::int64_t)>& run) const {
  for (std::int64_t size = batch_size_;; size = (size + 1) / 2) {
    try {
      return run(size);
    } catch (const c10::OutOfMemoryError&) {
      if (size == 1) throw;
    }
  }
}

Results Passes::RunInPieces(const Execution& execution, const Part& part) {
  harness::SetNumerics(execution.allow_tf32);
  Results results;
  HalveUntilItFits([&](std::int64_t piece_size) { results = Run(execution, piece_size, part); });
  return results;
}

double Passes::LargestState() const {
  const harness::PlainProducts plain(device_.type(), /*autocast=*/false);
  const at::NoGradGuard no_grad;
  double largest = 0;
  HalveUntilItFits([&](std::int64_t piece_size) {
    ForEachPiece(piece_size, [&](std::int64_t first, std::int64_t count) {
      NamedTensors inputs;
      for (const auto& [name, value] : subject_.inputs()) {
        inputs[name] = value.narrow(0, first, count);
      }
      largest = std::max(largest, subject_.LargestState(inputs));
    });
  });
  return largest;
}

Results Passes::RunSequences(const Execution& execution, std::int64_t first, std::int64_t count,
                             const Part& part) {
  if (std::chrono::steady_clock::now() > deadline_) throw DeadlineReached();
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
    const at::Tensor weight = Weight(name, output).narrow(0, first, count);
    weights.push_back(InPart(weight, first, part).to(output.scalar_type()));
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
const at::Tensor& Passes::Weight(const std::string& name, const at::Tensor& output) {
  at::Tensor& weight = weights_[name];
  if (!weight.defined()) {
    auto sizes = output.sizes().vec();
    sizes[0] = batch_size_;
    weight = testing::RandomNormal(sizes, Seed(name), at::kBFloat16, device_);
  }
  return weight;
}

std::int64_t CountOperations(const Subject& subject) {
  harness::SetNumerics(/*allow_tf32=*/false);
  Passes passes(subject, kNoDeadline);
  const OperationCounter counter;
  passes.Run({.path = ExecutionPath::kFast, .dtype = at::kFloat, .plain = true},
             passes.batch_size());
  return counter.count();
}

}  // namespace mixerbench::accuracy
