// What learners that go through the sequence in mini-batches (TTT, Titans) promise alike, as a
// check of a running test case.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include "kernels/runtime/execution_path.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"

#include "tests/support/catch2.h"

namespace mixerbench::testing {

// 23 tokens in mini-batches of 4: pieces of any length, the last of which leaves a mini-batch
// unfinished, equal one call of the reference, with the gradient of every input. `draw(seq_len)`
// gives the inputs, `args_of(inputs, begin, end)` the arguments of `core(args, path)` for a piece
// of them, `tensors_of` those of a state, keys that wait for their mini-batch third.
template <typename Draw, typename ArgsOf, typename Core, typename TensorsOf>
void CheckMiniBatchPieces(const Draw& draw, const ArgsOf& args_of, const Core& core,
                          const TensorsOf& tensors_of) {
  constexpr std::int64_t kSeqLen = 23;
  const std::vector<at::Tensor> inputs = draw(kSeqLen);
  const auto in_pieces = [&](const std::vector<std::int64_t>& cuts, kernels::ExecutionPath path) {
    return Differentiate(
        [&](const std::vector<at::Tensor>& x) {
          std::vector<at::Tensor> o;
          decltype(core(args_of(x, 0, 1), path).final_state) state;
          for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
            auto args = args_of(x, cuts[i], cuts[i + 1]);
            if (i > 0) args.initial_state = state;
            const auto result = core(args, path);
            o.push_back(result.o);
            state = result.final_state;
          }
          std::vector<at::Tensor> outputs = tensors_of(state);
          outputs.insert(outputs.begin(), at::cat(o, 1));
          return outputs;
        },
        inputs);
  };
  const auto expected = in_pieces({0, kSeqLen}, kernels::ExecutionPath::kReference);
  CHECK(expected.outputs[3].size(1) == 3);
  const std::vector<std::vector<std::int64_t>> all_cuts = {
      {0, kSeqLen}, {0, 1, 2, 3, kSeqLen}, {0, 4, 13, kSeqLen}, {0, 20, 21, kSeqLen}};
  for (const auto& cuts : all_cuts) {
    for (const auto path : {kernels::ExecutionPath::kReference, kernels::ExecutionPath::kFast}) {
      CAPTURE(cuts, path == kernels::ExecutionPath::kFast);
      CHECK(RelativeError(in_pieces(cuts, path), expected) < 1e-10);
    }
  }
}

}  // namespace mixerbench::testing
