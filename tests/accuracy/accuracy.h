// How far the fast path is from fp64, beside how far plain ATen is in the same precision.
//
//   exact  fp64: on the CPU the reference path, on a GPU plain ATen, which goes chunk by chunk
//   naive  plain ATen (kernels/plain_aten.h): the same algorithms without device code, in the
//          precision under test. bf16: with and without autocast, which rounds the operands of
//          every product, whichever errs more. tf32: as cuBLAS rounds, but at least an eighth of
//          the error in bf16, whose operands have three bits less
//   fast   what training runs
//
// An error may be twice the naive one, and what rounding in fp32 leaves besides (Tolerance).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/accuracy/comparison.h"
#include "tests/accuracy/subject.h"

namespace mixerbench::accuracy {

// Runs the fast path twice, the second time in poisoned memory: a difference in any bit is a
// failure. The reference runs in as large pieces of the batch as fit in memory.
std::vector<Accuracy> Measure(const Subject& subject, const std::vector<Precision>& precisions);

}  // namespace mixerbench::accuracy
