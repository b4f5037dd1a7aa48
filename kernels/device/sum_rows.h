// The second stage of sums over rows: adds the parts that CTAs left behind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

struct CUstream_st;

namespace mixerbench::kernels {

// sums[c] = sum over p of parts[p, c], in an order that depends on num_parts alone. Queues the
// work; returns the CUDA error code of the launch.
int LaunchSumRows(const float* parts, int num_parts, int num_columns, float* sums,
                  CUstream_st* stream);

}  // namespace mixerbench::kernels
