// Residual addition and one or two norms, forward and backward.
//
// A group of lanes owns a row at a time (row_layout.cuh) and keeps it in registers; weights lie in
// shared memory. The loads of the next row are under way while a row is computed. The backward pass
// takes the rows' means and scales from the forward pass, whose sums would be half of its own. A
// lane keeps the weight gradients of its columns in registers; a block adds its groups in order and
// leaves one partial sum; SumRowsKernel adds those in order. All arithmetic in fp32; deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <climits>

#include "kernels/device/launch.cuh"
#include "kernels/device/sum_rows.h"
#include "kernels/norm/norm_rows.cuh"
#include "kernels/norm/residual_norm_cuda.h"

namespace mixerbench::kernels {
namespace {

// Two rows of 128 columns a group: the start and the sums of a block take as long as a few rows.
constexpr int kRowsPerPartial = 32;

// Blocks that a processor holds at once by their registers, for rows of kChunks vectors a lane.
// Weights are read once by each block: no more blocks than a GPU of kProcessors holds.
constexpr int kProcessors = 132;
template <int kChunks>
constexpr int kForwardBlocks = kChunks == 1 ? 4 : 3;
template <int kChunks>
constexpr int kBackwardBlocks = kChunks == 1 ? 2 : 1;

// Which weights; the backward pass needs no kBias.
enum Columns { kWeight, kMidWeight, kMidBias, kBias };

// Where `row` lies among the scored rows of the stream, past their end when nowhere.
__device__ int ScoredRow(const ScoredRows& scored, int row, int num_rows) {
  if (scored.inverse == nullptr) return row;
  return row < num_rows ? static_cast<int>(scored.inverse[row]) : INT_MAX;
}

template <typename T, int kChunks, bool kMid, typename Layout>
__global__ void __launch_bounds__(kThreads, kForwardBlocks<kChunks>)
    ForwardKernel(const ResidualNormForward args) {
  __shared__ SharedColumns<kChunks, 4> columns;
  const Layout layout(args.width);
  RowCursor cursor(layout, args.num_rows);
  const RowReader<T, kChunks, Layout> residual_rows(layout, args.residual, cursor.num_rows);
  const RowReader<T, kChunks, Layout> added_rows(layout, args.added, cursor.num_rows);
  const RowWriter<T, kChunks, Layout> stream_rows(
      layout, args.residual_out,
      args.scored.inverse == nullptr ? cursor.num_rows : static_cast<int>(args.scored.num_scored));
  const RowWriter<T, kChunks, Layout> normalised_rows(layout, args.normalised, cursor.num_rows);
  struct Terms {
    PackedRow<T, kChunks> residual, added;
  };
  Terms next{residual_rows.Load(cursor.row), added_rows.Load(cursor.row)};
  columns.Fill(layout, {args.norm.weight, args.mid.weight, args.mid.bias, args.norm.bias});
  // The entry of the scored rows that this thread looks after: one that no row fills gets zeros.
  const long long entry = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const bool has_entry = args.scored.inverse != nullptr && entry < args.scored.num_scored;
  const long long entry_row = has_entry ? args.scored.positions[entry] : 0;
  __syncthreads();
  const bool only_fills = has_entry && args.scored.inverse[entry_row] != entry;
  for (; !cursor.IsWarpDone(); cursor.row += cursor.step) {
    const Terms in = next;
    next = {residual_rows.Load(cursor.row + cursor.step),
            added_rows.Load(cursor.row + cursor.step)};
    const int scored = ScoredRow(args.scored, cursor.row, cursor.num_rows);

    asm volatile("" ::: "memory");  // else the columns are loaded once, to registers
    float4 statistics = make_float4(0, 0, 0, 0);
    RowValues<kChunks> u = Sum(in.residual.Unpack(), in.added.Unpack());
    if constexpr (kMid) {
      const auto middle = Standardise(layout, u, args.mid.bias != nullptr, args.mid.eps);
      statistics.x = middle.mean;
      statistics.y = middle.scale;
      u = Sum(u, Affine<kChunks>{columns.Load(layout, kMidWeight),
                                 columns.Load(layout, kMidBias)}(middle.x));
    }
    const auto last = Standardise(layout, u, args.norm.bias != nullptr, args.norm.eps);
    statistics.z = last.mean;
    statistics.w = last.scale;
    stream_rows.Store(scored, u);
    normalised_rows.Store(cursor.row, Affine<kChunks>{columns.Load(layout, kWeight),
                                                      columns.Load(layout, kBias)}(last.x));
    if (cursor.row < cursor.num_rows && args.statistics != nullptr && layout.lane == 0) {
      reinterpret_cast<float4*>(args.statistics)[cursor.row] = statistics;
    }
  }
  if (only_fills) {
    T* row = static_cast<T*>(args.residual_out.data) + entry * args.residual_out.stride;
    for (int i = 0; i < args.width; i += kVector) StoreVector(row + i, Vector{});
  }
}

// What the backward pass reads of a row; zeros for a row that does not exist.
template <typename T, int kChunks>
struct BackwardRow {
  PackedRow<T, kChunks> residual, added, d_residual_out, d_normalised;
  float4 statistics;
};

template <typename T, int kChunks, bool kMid, typename Layout>
__global__ void __launch_bounds__(kThreads, kBackwardBlocks<kChunks>)
    BackwardKernel(const ResidualNormBackward args) {
  extern __shared__ __align__(16) float scratch[];  // a row of each thread for each weight
  __shared__ SharedColumns<kChunks, 3> columns;
  const Layout layout(args.width);
  const bool centre = args.norm.bias != nullptr;
  const bool mid_centre = args.mid.bias != nullptr;
  NormGradients<kChunks> d_norm, d_mid;

  RowCursor cursor(layout, args.num_rows);
  const RowReader<T, kChunks, Layout> residual_rows(layout, args.residual, cursor.num_rows);
  const RowReader<T, kChunks, Layout> added_rows(layout, args.added, cursor.num_rows);
  const RowReader<T, kChunks, Layout> d_normalised_rows(layout, args.d_normalised, cursor.num_rows);
  const RowReader<T, kChunks, Layout> d_residual_rows(
      layout, args.d_residual_out,
      args.scored.inverse == nullptr ? cursor.num_rows : static_cast<int>(args.scored.num_scored));
  const RowWriter<T, kChunks, Layout> d_sum_rows(layout, args.d_sum, cursor.num_rows);
  const auto* statistics = reinterpret_cast<const float4*>(args.statistics);
  const auto load = [&](int row, int scored) -> BackwardRow<T, kChunks> {
    return {residual_rows.Load(row), added_rows.Load(row), d_residual_rows.Load(scored),
            d_normalised_rows.Load(row),
            row < cursor.num_rows ? statistics[row] : make_float4(0, 0, 0, 0)};
  };
  auto next = load(cursor.row, ScoredRow(args.scored, cursor.row, cursor.num_rows));
  // A row ahead of the loads that it directs.
  int next_scored = ScoredRow(args.scored, cursor.row + cursor.step, cursor.num_rows);
  columns.Fill(layout, {args.norm.weight, args.mid.weight, args.mid.bias});
  __syncthreads();
  for (; !cursor.IsWarpDone(); cursor.row += cursor.step) {
    const BackwardRow<T, kChunks> in = next;
    next = load(cursor.row + cursor.step, next_scored);
    next_scored = ScoredRow(args.scored, cursor.row + 2 * cursor.step, cursor.num_rows);

    asm volatile("" ::: "memory");  // else the columns are loaded once, to registers
    RowValues<kChunks> u = Sum(in.residual.Unpack(), in.added.Unpack());
    RowValues<kChunks> middle;
    if constexpr (kMid) {
      middle = StandardiseBy(u, in.statistics.x, in.statistics.y);
      u = Sum(u, Affine<kChunks>{columns.Load(layout, kMidWeight),
                                 columns.Load(layout, kMidBias)}(middle));
    }
    const RowValues<kChunks> last = StandardiseBy(u, in.statistics.z, in.statistics.w);
    RowValues<kChunks> ds = in.d_residual_out.Unpack();
    AddNormBackward(layout, last, in.statistics.w, in.d_normalised.Unpack(),
                    columns.Load(layout, kWeight), centre, d_norm, ds);
    if constexpr (kMid) {
      const RowValues<kChunks> d_middle = ds;
      AddNormBackward(layout, middle, in.statistics.y, d_middle, columns.Load(layout, kMidWeight),
                      mid_centre, d_mid, ds);
    }
    d_sum_rows.Store(cursor.row, ds);
  }

  SumGroupsTogether(
      layout, {d_norm.weight, d_norm.bias, d_mid.weight, d_mid.bias}, scratch,
      args.partials + static_cast<long long>(blockIdx.x) * kResidualNormWeights * args.width);
}

// f.template operator()<T, chunks, mid, Layout>() for these rows. The widths of small models have
// kernels of their own, with so many vectors a lane: two take half the shuffles and half the rows'
// bookkeeping, one leaves registers for more warps.
template <int kVectorsOf128, typename F>
void Dispatch(Element element, int width, bool mid, F f) {
  const auto with_layout = [&]<typename T, int kChunks, typename Layout>() {
    mid ? f.template operator()<T, kChunks, true, Layout>()
        : f.template operator()<T, kChunks, false, Layout>();
  };
  const bool two_chunks = width > 32 * kVector;
  if (element == Element::kFloat) {
    two_chunks ? with_layout.template operator()<float, 2, RowLayout>()
               : with_layout.template operator()<float, 1, RowLayout>();
  } else if (width == 64) {
    with_layout.template operator()<__nv_bfloat16, 2, FullRowLayout<64, 2>>();
  } else if (width == 128) {
    with_layout
        .template operator()<__nv_bfloat16, kVectorsOf128, FullRowLayout<128, kVectorsOf128>>();
  } else {
    two_chunks ? with_layout.template operator()<__nv_bfloat16, 2, RowLayout>()
               : with_layout.template operator()<__nv_bfloat16, 1, RowLayout>();
  }
}

}  // namespace

int ResidualNormPartials(long long num_rows, int width) {
  const bool two_chunks = width == 64 || width > 32 * kVector;
  return std::clamp(Blocks(num_rows, kRowsPerPartial), 1,
                    kProcessors * (two_chunks ? kBackwardBlocks<2> : kBackwardBlocks<1>));
}

int LaunchResidualNormForward(const ResidualNormForward& args, CUstream_st* stream) {
  if (args.num_rows == 0) return cudaSuccess;
  Dispatch<2>(args.element, args.width, args.mid.weight != nullptr,
              [&]<typename T, int kChunks, bool kMid, typename Layout>() {
                const int rows_per_block = kThreads / Layout::LanesOf(args.width);
                const int blocks = std::min(Blocks(args.num_rows, rows_per_block),
                                            kProcessors * kForwardBlocks<kChunks>);
                const bool has_scored = args.scored.inverse != nullptr;
                const int grid =
                    std::max(blocks, has_scored ? Blocks(args.scored.num_scored, kThreads) : 0);
                ForwardKernel<T, kChunks, kMid, Layout>
                    <<<static_cast<unsigned>(grid), kThreads, 0, stream>>>(args);
              });
  return cudaGetLastError();
}

int LaunchResidualNormBackward(const ResidualNormBackward& args, CUstream_st* stream) {
  const int parts = ResidualNormPartials(args.num_rows, args.width);
  cudaError_t status = cudaSuccess;
  Dispatch<1>(args.element, args.width, args.mid.weight != nullptr,
              [&]<typename T, int kChunks, bool kMid, typename Layout>() {
                status = device::Launch(BackwardKernel<T, kChunks, kMid, Layout>, parts, kThreads,
                                        kResidualNormWeights * kThreads * kChunks * sizeof(Vector),
                                        stream, args);
              });
  if (status != cudaSuccess) return status;
  return LaunchSumRows(args.partials, parts, kResidualNormWeights * args.width, args.d_weights,
                       stream);
}

}  // namespace mixerbench::kernels
