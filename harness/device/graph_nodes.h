// What is changed in a captured graph before it is instantiated. No torch here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

struct CUgraph_st;

namespace mixerbench::harness {

// Replaces every memset node of up to 1024 elements in a row by a kernel node that writes the same
// values between the same neighbours; `num_replaced` counts them. The driver runs such a memset,
// cuBLAS's four bytes say, apart from kernels, and going there and back costs about 2 us.
// Returns the CUDA error code, 0 for success; the graph is of no use after a failure.
int ReplaceSmallMemsets(CUgraph_st* graph, int& num_replaced);

}  // namespace mixerbench::harness
