// One pass of a subject, forward and backward, in the ways that are compared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "tests/accuracy/subject.h"

namespace mixerbench::accuracy {

// Thrown by a pass that would begin after the deadline. Nothing that catches what went wrong with a
// pass catches this.
struct DeadlineReached {};

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

struct Execution {
  ExecutionPath path = ExecutionPath::kReference;
  at::ScalarType dtype = at::kDouble;
  bool allow_tf32 = false;
  bool plain = false;  // without device code
  bool autocast = false;
};

// Of the batch: the sequences whose number leaves `index` when divided by `count`. All run, as in
// the whole batch and by the same plans; the outputs of the others have no weight.
struct Part {
  std::int64_t index = 0;
  std::int64_t count = 1;
};

struct Results {
  NamedTensors outputs;              // [B,...]
  NamedTensors input_gradients;      // [B,...]
  NamedTensors parameter_gradients;  // summed over sequences
};

class Passes {
 public:
  Passes(const Subject& subject, Deadline deadline);

  std::int64_t batch_size() const { return batch_size_; }
  at::Device device() const { return device_; }

  // By the process's settings (harness::SetNumerics), which say whether fresh memory is poisoned.
  // At most `piece_size` sequences at a time. Gradients are those of `part`.
  Results Run(const Execution& execution, std::int64_t piece_size, const Part& part = {});

  // Halves the pieces of the batch until `run`, which gets their size, finds memory.
  void HalveUntilItFits(const std::function<void(std::int64_t piece_size)>& run) const;

  // Both, with numerics of the execution.
  Results RunInPieces(const Execution& execution, const Part& part = {});

  // The largest number in the states of an exact run.
  double LargestState() const;

 private:
  // run(first, count) of consecutive sequences, together the batch.
  void ForEachPiece(std::int64_t piece_size,
                    const std::function<void(std::int64_t, std::int64_t)>& run) const;
  Results RunSequences(const Execution& execution, std::int64_t first, std::int64_t count,
                       const Part& part);
  const at::Tensor& Weight(const std::string& name, const at::Tensor& output);

  const Subject& subject_;
  Deadline deadline_;
  std::int64_t batch_size_;
  at::Device device_;
  NamedTensors weights_;
};

// ATen's operations in one pass of the fast path without device code. On a GPU each is a launch or
// about as much, and they take their time one after the other: what a recurrence costs that goes
// token by token.
std::int64_t CountOperations(const Subject& subject);

}  // namespace mixerbench::accuracy
