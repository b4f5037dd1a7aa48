// How the rows of a matrix are laid over the threads of a block, and norms of rows held that way.
//
// A row belongs to a group of `lanes` neighbouring lanes of one warp (a power of two); a lane holds
// kChunks vectors of eight columns, 8 * lanes columns apart. Lanes past the end of a row hold
// zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/fused/vector_io.cuh"

namespace mixerbench::kernels::fused {

constexpr int kThreads = 256;

// Lanes for a row of `width` columns: the least power of two that holds it, at most a warp.
__host__ __device__ constexpr int LanesFor(int width) {
  int lanes = 1;
  while (lanes < 32 && lanes * kVector < width) lanes *= 2;
  return lanes;
}

struct RowLayout {
  int width, lanes, lane, group, num_groups;  // of this thread, in its block

  __device__ explicit RowLayout(int row_width)
      : width(row_width),
        lanes(LanesFor(row_width)),
        lane(static_cast<int>(threadIdx.x) % lanes),
        group(static_cast<int>(threadIdx.x) / lanes),
        num_groups(kThreads / lanes) {}

  __device__ int Column(int chunk) const { return (chunk * lanes + lane) * kVector; }
  __device__ bool Active(int chunk) const { return Column(chunk) < width; }
};

// RowLayout of rows of one vector in every lane, known to the compiler: no lane is idle, and sums
// over a row have no branches.
template <int kWidth>
struct FullRowLayout {
  static constexpr int width = kWidth;
  static constexpr int lanes = LanesFor(kWidth);
  static constexpr int num_groups = kThreads / lanes;
  static_assert(width == lanes * kVector);
  int lane, group;

  __device__ explicit FullRowLayout(int)
      : lane(static_cast<int>(threadIdx.x) % lanes), group(static_cast<int>(threadIdx.x) / lanes) {}

  __device__ int Column(int chunk) const { return (chunk * lanes + lane) * kVector; }
  __device__ bool Active(int) const { return true; }
};

template <int kChunks>
struct RowValues {
  Vector chunk[kChunks];
};

// A row of elements T as it lies in memory.
template <typename T, int kChunks>
struct PackedRow {
  Packed<T> chunk[kChunks];

  __device__ RowValues<kChunks> Unpack() const {
    RowValues<kChunks> values;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) values.chunk[c] = chunk[c].Unpack();
    return values;
  }
};

// Zeros unless `valid` and where `rows`, of elements T, is absent.
template <typename T, int kChunks, typename Layout, typename AnyRows>
__device__ inline PackedRow<T, kChunks> LoadPackedRow(const Layout& layout, const AnyRows& rows,
                                                      long long row, bool valid) {
  PackedRow<T, kChunks> packed;
  const T* source = static_cast<const T*>(rows.data) + row * rows.stride;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    packed.chunk[c] =
        LoadPacked(source + layout.Column(c), valid && rows.data != nullptr && layout.Active(c));
  }
  return packed;
}

// The same for stores.
template <typename T, int kChunks, typename Layout>
__device__ inline void StoreRowAs(const Layout& layout, const Rows& rows, long long row,
                                  const RowValues<kChunks>& values, bool valid) {
  T* target = static_cast<T*>(rows.data) + row * rows.stride;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (valid && rows.data != nullptr && layout.Active(c)) {
      StoreVector(target + layout.Column(c), values.chunk[c]);
    }
  }
}

// Zeros where `values` is absent.
template <int kChunks, typename Layout>
__device__ inline RowValues<kChunks> LoadColumns(const Layout& layout, const float* values) {
  return LoadPackedRow<float, kChunks>(layout, ConstRows{values, Element::kFloat, 0}, 0, true)
      .Unpack();
}

// f(chunk, i) for every element a lane holds, those past the end included.
template <int kChunks, typename F>
__device__ inline void ForEach(F f) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) f(c, i);
  }
}

template <int kChunks, typename Layout, typename F>
__device__ inline float RowSum(const Layout& layout, F f) {
  float sum = 0;
  ForEach<kChunks>([&](int c, int i) { sum += f(c, i); });
  return GroupSum(sum, layout.lanes);
}

// A row divided by its standard deviation (LayerNorm, mean removed) or root mean square.
template <int kChunks>
struct Standardised {
  RowValues<kChunks> x;  // zeros past the end
  float mean;            // what was taken from the row: 0 for an RMSNorm
  float scale;           // what it was multiplied by then
};

// The row standardised by the mean and scale of an earlier call of Standardise.
template <int kChunks, typename Layout>
__device__ inline Standardised<kChunks> StandardiseBy(const Layout& layout,
                                                      const RowValues<kChunks>& row, float mean,
                                                      float scale) {
  Standardised<kChunks> result{{}, mean, scale};
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const float factor = layout.Active(c) ? scale : 0;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      result.x.chunk[c].x[i] = (row.chunk[c].x[i] - mean) * factor;
    }
  }
  return result;
}

template <int kChunks, typename Layout>
__device__ inline Standardised<kChunks> Standardise(const Layout& layout,
                                                    const RowValues<kChunks>& row, bool centre,
                                                    float eps) {
  const float inverse_width = 1.0f / static_cast<float>(layout.width);
  float mean = 0;
  if (centre) {
    mean = RowSum<kChunks>(layout, [&](int c, int i) { return row.chunk[c].x[i]; }) * inverse_width;
  }
  Standardised<kChunks> result = StandardiseBy(layout, row, mean, 1);
  const float square = RowSum<kChunks>(
      layout, [&](int c, int i) { return result.x.chunk[c].x[i] * result.x.chunk[c].x[i]; });
  result.scale = rsqrtf(square * inverse_width + eps);
  ForEach<kChunks>([&](int c, int i) { result.x.chunk[c].x[i] *= result.scale; });
  return result;
}

// Gradient of the row, given `g`, that of the standardised row (zeros past the end).
template <int kChunks, typename Layout>
__device__ inline RowValues<kChunks> StandardiseBackward(const Layout& layout,
                                                         const Standardised<kChunks>& forward,
                                                         const RowValues<kChunks>& g, bool centre) {
  const float inverse_width = 1.0f / static_cast<float>(layout.width);
  const float projection =
      RowSum<kChunks>(layout,
                      [&](int c, int i) { return g.chunk[c].x[i] * forward.x.chunk[c].x[i]; }) *
      inverse_width;
  float mean = 0;
  if (centre) {
    mean = RowSum<kChunks>(layout, [&](int c, int i) { return g.chunk[c].x[i]; }) * inverse_width;
  }
  RowValues<kChunks> result;
  ForEach<kChunks>([&](int c, int i) {
    result.chunk[c].x[i] =
        forward.scale * (g.chunk[c].x[i] - mean - forward.x.chunk[c].x[i] * projection);
  });
  return result;
}

// Sums `values` of all groups of the block, in order of the groups, into target[0..width).
// `scratch` holds kThreads * kChunks * 8 floats. Called by all threads.
template <int kChunks, typename Layout>
__device__ inline void SumGroups(const Layout& layout, const RowValues<kChunks>& values,
                                 float* scratch, float* target) {
  const int pitch = layout.lanes * kVector * kChunks;
  __syncthreads();
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    StoreFloat(scratch + layout.group * pitch + layout.Column(c), values.chunk[c]);
  }
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x); column < layout.width; column += kThreads) {
    float sum = 0;
    for (int group = 0; group < layout.num_groups; ++group) sum += scratch[group * pitch + column];
    target[column] = sum;
  }
}

}  // namespace mixerbench::kernels::fused
