// What a phase of a throughput cell times, and the same computed by the reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "harness/device/graph.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "harness/training/model.h"
#include "models/backbone.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// What all passes of a cell share; must outlive them.
struct PassContext {
  const Cell& cell;
  const Model& model;
  GraphContext& graphs;
  const Registries& registries;
  std::int64_t max_seq_len = 0;  // the model was built for
};

class TimedPass {
 public:
  virtual ~TimedPass() = default;

  // Queues the work that is timed.
  virtual void Run() = 0;

  // That work. Which plans it runs by is known after the first Run.
  virtual const RepeatedWork& work() const = 0;

  // Runs the pass once more, by the same functions with the same shapes, and holds its outputs and
  // gradients against the reference. Throws std::logic_error when that ran by other plans than
  // work(), so call it after the first Run.
  virtual reports::Parity CompareWithReference() = 0;
};

// int32 [cell.throughput.batch_size, seq_len] on the device, by the seed of the cell.
at::Tensor RandomTokens(const PassContext& context, std::int64_t seq_len);

// How a backbone is called in a timed pass.
models::BackboneOptions TimedOptions(const PassContext& context);

// The backbone without head on RandomTokens(seq_len); `has_backward`: with gradients of all
// parameters from a fixed gradient of the output.
std::unique_ptr<TimedPass> MakeBackbonePass(const PassContext& context, std::int64_t seq_len,
                                            bool has_backward);

// The backbone without head on RandomTokens(seq_len), with the state after them.
std::unique_ptr<TimedPass> MakePrefillPass(const PassContext& context, std::int64_t seq_len);

// The backbone without head on one more token of every sequence, with the state after it, from the
// state after RandomTokens of seq_len, which was made before.
std::unique_ptr<TimedPass> MakeDecodePass(const PassContext& context, std::int64_t seq_len);

// The training step of the cell on full batches of its first training segment.
std::unique_ptr<TimedPass> MakeTrainStep(const PassContext& context);

}  // namespace mixerbench::harness
