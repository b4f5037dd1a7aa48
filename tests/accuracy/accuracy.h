// How far the fast path is from fp64, beside how far plain ATen is in the same precision.
//
//   exact  fp64: on the CPU the reference path, on a GPU plain ATen, which goes chunk by chunk
//   naive  plain ATen (kernels/runtime/plain_aten.h): the same algorithms without device code, in
//   the
//          precision under test. bf16: with and without autocast, which rounds the operands of
//          every product, whichever errs more. tf32: as cuBLAS rounds, but at least an eighth of
//          the error in bf16, whose operands have three bits less
//   fast   what training runs
//
// An error may be twice the naive one, and what rounding in fp32 leaves besides (Tolerance).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "tests/accuracy/comparison.h"
#include "tests/accuracy/passes.h"
#include "tests/accuracy/subject.h"

namespace mixerbench::accuracy {

inline constexpr std::string_view kTimeLimitReached = "the time limit was reached";

// Runs the fast path twice, the second time in poisoned memory: a difference in any bit is a
// failure. Every run is in as large pieces of the batch as fit in memory. A case with an exact
// result beyond the range of fp32 is left out. Precisions that are not done when a pass would begin
// after the deadline fail.
std::vector<Accuracy> Measure(const Subject& subject, const std::vector<Precision>& precisions,
                              Deadline deadline = kNoDeadline);

}  // namespace mixerbench::accuracy
