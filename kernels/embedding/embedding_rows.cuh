// What the kernels of the embedding share: reading token ids, and how its rows are laid out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/row_layout.cuh"
#include "kernels/embedding/embedding_cuda.h"

namespace mixerbench::kernels {

__device__ inline int TokenAt(const TokenIds& tokens, long long i, int vocab_size) {
  const long long token = tokens.is_int64 ? static_cast<const long long*>(tokens.data)[i]
                                          : static_cast<const int*>(tokens.data)[i];
  if (token < 0 || token >= vocab_size) __trap();
  return static_cast<int>(token);
}
// f.template operator()<T, chunks, Layout>() for rows of this width; those of small models have
// kernels of their own, with kVectors a lane. The number of lanes depends on the width alone: it
// decides how sums are cut.
template <int kVectors, typename F>
void DispatchEmbedding(Element element, int width, F f) {
  const auto with_element = [&]<typename T>() {
    if (width == 64) {
      f.template operator()<T, kVectors, FullRowLayout<64, kVectors>>();
    } else if (width == 128) {
      f.template operator()<T, kVectors, FullRowLayout<128, kVectors>>();
    } else if (width <= 32 * kVector) {
      f.template operator()<T, 1, RowLayout>();
    } else {
      f.template operator()<T, 2, RowLayout>();
    }
  };
  element == Element::kFloat ? with_element.template operator()<float>()
                             : with_element.template operator()<__nv_bfloat16>();
}

}  // namespace mixerbench::kernels
