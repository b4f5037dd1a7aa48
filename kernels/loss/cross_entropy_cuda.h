// Device functions of cross_entropy.h on raw pointers. cross_entropy.cu defines them;
// device_stub.cc does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

struct CrossEntropyForward {
  ConstRows logits;  // [num_rows, vocab_size]
  long long num_rows = 0;
  int vocab_size = 0;
  const std::int64_t* targets = nullptr;  // negative: the row does not count
  float* nll = nullptr;                   // [num_rows]; 0 where the row does not count
  std::int64_t* predicted = nullptr;      // [num_rows] arg-max, lowest id of equal ones
  float* loss = nullptr;                  // mean nll of the rows that count; nullptr: not wanted
  // Gradient of `loss`, dtype of the logits; absent: not wanted.
  Rows d_logits;
  float* inverse_count = nullptr;  // scratch, one float
};

// Queue the work; return the CUDA error code of the launch. Any strides, any vocabulary.
int LaunchCrossEntropyForward(const CrossEntropyForward& args, CUstream_st* stream);

// Multiplies `size` elements (a contiguous tensor) by *factor, without touching them when that is
// 1: the usual gradient of a loss costs one empty kernel.
int LaunchScaleUnlessOne(void* data, Element element, long long size, const float* factor,
                         CUstream_st* stream);

}  // namespace mixerbench::kernels
