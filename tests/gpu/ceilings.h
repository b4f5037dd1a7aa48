// What the GPU that a benchmark runs on can do at most, as measured there: what its floors are
// counted with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mixerbench::testing {

struct Ceilings {
  double bytes_per_second = 0;  // of a copy far larger than the cache, read and written
  double flops_per_second = 0;  // of a bf16 product of square matrices, sums in fp32
};

// The median of some samples of each, on CUDA's first device; about 0.1 s.
Ceilings MeasureCeilings();

}  // namespace mixerbench::testing
