// How the rows of a matrix are laid over the threads of a block, how they are read, written and
// summed.
//
// A row belongs to a group of `lanes` neighbouring lanes of one warp (a power of two); a lane holds
// kChunks vectors of eight columns, 8 * lanes columns apart. Lanes past the end of a row hold
// zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/vector_io.cuh"

namespace mixerbench::kernels {

constexpr int kThreads = 256;

// Lanes for a row of `width` columns: the least power of two that holds it, at most a warp.
__host__ __device__ constexpr int LanesFor(int width) {
  int lanes = 1;
  while (lanes < 32 && lanes * kVector < width) lanes *= 2;
  return lanes;
}

// How many blocks of so many items hold all of them.
__host__ __device__ constexpr int Blocks(long long items, int per_block) {
  return static_cast<int>((items + per_block - 1) / per_block);
}

struct RowLayout {
  static constexpr int LanesOf(int row_width) { return LanesFor(row_width); }

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

// RowLayout of rows that fill kChunks vectors of every lane, known to the compiler: no lane is
// idle, and sums over a row have no branches.
template <int kWidth, int kChunks>
struct FullRowLayout {
  static constexpr int width = kWidth;
  static constexpr int lanes = kWidth / (kChunks * kVector);
  static constexpr int num_groups = kThreads / lanes;
  static_assert(width == lanes * kChunks * kVector && 32 % lanes == 0);
  static constexpr int LanesOf(int) { return lanes; }

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

template <typename T, int kChunks>
__device__ inline PackedRow<T, kChunks> PackRow(const RowValues<kChunks>& values) {
  PackedRow<T, kChunks> packed;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) packed.chunk[c] = Pack<T>(values.chunk[c]);
  return packed;
}

// Rows of elements T in memory: how a lane reads its part of one. A row from `limit` on, all of
// them where there are none, reads as zeros.
template <typename T, int kChunks, typename Layout>
struct RowReader {
  const char* first;  // this lane's part of row 0
  int pitch;          // bytes
  int limit;
  const Layout& layout;

  __device__ RowReader(const Layout& row_layout, const ConstRows& rows, int num_rows)
      : first(
            reinterpret_cast<const char*>(static_cast<const T*>(rows.data) + row_layout.Column(0))),
        pitch(static_cast<int>(rows.stride * sizeof(T))),
        limit(rows.data != nullptr ? num_rows : 0),
        layout(row_layout) {}

  __device__ PackedRow<T, kChunks> Load(int row) const {
    const auto* source = reinterpret_cast<const T*>(first + static_cast<long long>(row) * pitch);
    PackedRow<T, kChunks> packed;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      packed.chunk[c] =
          LoadPacked(source + c * layout.lanes * kVector, row < limit && layout.Active(c));
    }
    return packed;
  }
};

// How it writes one; what does not exist is left out.
template <typename T, int kChunks, typename Layout>
struct RowWriter {
  char* first;
  int pitch;
  int limit;
  const Layout& layout;

  __device__ RowWriter(const Layout& row_layout, const Rows& rows, int num_rows)
      : first(reinterpret_cast<char*>(static_cast<T*>(rows.data) + row_layout.Column(0))),
        pitch(static_cast<int>(rows.stride * sizeof(T))),
        limit(rows.data != nullptr ? num_rows : 0),
        layout(row_layout) {}

  __device__ void Store(int row, const PackedRow<T, kChunks>& packed) const {
    auto* target = reinterpret_cast<T*>(first + static_cast<long long>(row) * pitch);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (row < limit && layout.Active(c)) {
        StorePacked(target + c * layout.lanes * kVector, packed.chunk[c]);
      }
    }
  }

  __device__ void Store(int row, const RowValues<kChunks>& values) const {
    Store(row, PackRow<T>(values));
  }
};

// One row of floats.
template <int kChunks, typename Layout>
__device__ inline RowValues<kChunks> LoadColumns(const Layout& layout, const float* values) {
  return RowReader<float, kChunks, Layout>(layout, {values, Element::kFloat, 0}, 1)
      .Load(0)
      .Unpack();
}

template <int kChunks, typename Layout>
__device__ inline void StoreColumns(const Layout& layout, float* target,
                                    const RowValues<kChunks>& values) {
  RowWriter<float, kChunks, Layout>(layout, {target, Element::kFloat, 0}, 1).Store(0, values);
}

// The rows of a group: first, first + step, ... Every lane of a warp takes part in the sums over
// rows, so a warp leaves its loop as a whole.
struct RowCursor {
  int row, step, num_rows;

  template <typename Layout>
  __device__ RowCursor(const Layout& layout, long long rows)
      : row(static_cast<int>(blockIdx.x) * layout.num_groups + layout.group),
        step(static_cast<int>(gridDim.x) * layout.num_groups),
        num_rows(static_cast<int>(rows)) {}

  __device__ bool IsWarpDone() const { return __all_sync(0xffffffffu, row >= num_rows); }
};

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

// Calls write(column, sum) for each of the columns, sum being that of `values` over all groups of
// the block, in order of the groups. `scratch` holds kThreads * kChunks * 8 floats. Called by all
// threads.
template <int kChunks, typename Layout, typename F>
__device__ inline void ForEachGroupSum(const Layout& layout, const RowValues<kChunks>& values,
                                       float* scratch, F write) {
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
    write(column, sum);
  }
}

// The same into target[0..width).
template <int kChunks, typename Layout>
__device__ inline void SumGroups(const Layout& layout, const RowValues<kChunks>& values,
                                 float* scratch, float* target) {
  ForEachGroupSum(layout, values, scratch, [&](int column, float sum) { target[column] = sum; });
}

}  // namespace mixerbench::kernels
