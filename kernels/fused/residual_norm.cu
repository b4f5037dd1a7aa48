// Residual addition and one or two norms, forward and backward.
//
// A group of lanes owns a row at a time (row_layout.cuh) and keeps it in registers; weights lie in
// shared memory. The loads of the next row are under way while a row is computed. What bounds both
// passes is the number of instructions: the backward pass takes the rows' means and scales from the
// forward pass, whose sums would be half of its own. A lane keeps the weight gradients of its eight
// columns in registers; a block adds its groups in order and leaves one partial sum; SumRowsKernel
// adds those in order. All arithmetic in fp32; deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused/residual_norm_device.h"
#include "kernels/fused/row_layout.cuh"
#include "kernels/fused/sum_rows.h"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kMaxPartials = 264;
constexpr int kRowsPerPartial = 64;
// Weights are read once by each block: few blocks, each for many rows, all at work at once.
constexpr int kMaxForwardBlocks = 528;

template <int kChunks>
__device__ RowValues<kChunks> Sum(const RowValues<kChunks>& a, const RowValues<kChunks>& b) {
  RowValues<kChunks> sum;
  ForEach<kChunks>([&](int c, int i) { sum.chunk[c].x[i] = a.chunk[c].x[i] + b.chunk[c].x[i]; });
  return sum;
}

// weight * x + bias; the bias of an RMSNorm is loaded as zeros.
template <int kChunks>
struct Affine {
  RowValues<kChunks> weight, bias;

  __device__ RowValues<kChunks> operator()(const RowValues<kChunks>& x) const {
    RowValues<kChunks> y;
    ForEach<kChunks>([&](int c, int i) {
      y.chunk[c].x[i] = weight.chunk[c].x[i] * x.chunk[c].x[i] + bias.chunk[c].x[i];
    });
    return y;
  }
};

// Weights of columns in shared memory, zeros for those that are absent: registers hold rows under
// way and sums of weight gradients.
template <int kChunks, int kCount>
struct SharedColumns {
  float columns[kCount][32 * kVector * kChunks];

  // All loads are on their way before the first store. To be followed by a barrier.
  template <typename Layout>
  __device__ void Fill(const Layout& layout, const float* const (&sources)[kCount]) {
    for (int i = static_cast<int>(threadIdx.x); i < layout.lanes * kVector * kChunks;
         i += kThreads) {
      float values[kCount];
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        values[k] = sources[k] != nullptr && i < layout.width ? sources[k][i] : 0;
      }
#pragma unroll
      for (int k = 0; k < kCount; ++k) columns[k][i] = values[k];
    }
  }

  template <typename Layout>
  __device__ RowValues<kChunks> Load(const Layout& layout, int k) const {
    RowValues<kChunks> values;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) values.chunk[c] = LoadFloat(columns[k] + layout.Column(c));
    return values;
  }
};

// Which weights; the backward pass needs no kBias.
enum Columns { kWeight, kMidWeight, kMidBias, kAddedBias, kBias };

// The rows of a group: first, first + step, ... Every lane of a warp takes part in the sums over
// rows, so a warp leaves its loop as a whole.
struct RowWalk {
  long long row, step, num_rows;

  template <typename Layout>
  __device__ RowWalk(const Layout& layout, long long rows)
      : row(static_cast<long long>(blockIdx.x) * layout.num_groups + layout.group),
        step(static_cast<long long>(gridDim.x) * layout.num_groups),
        num_rows(rows) {}

  __device__ bool IsWarpDone() const { return __all_sync(0xffffffffu, row >= num_rows); }
};

// Where `row` lies among the kept rows of the stream; -1: nowhere.
__device__ long long KeptRow(const KeptRows& kept, long long row, long long num_rows) {
  if (row >= num_rows) return -1;
  if (kept.entries == nullptr) return row;
  const long long entry = kept.entries[row];
  return entry < kept.num_kept ? entry : -1;
}

template <typename T, int kChunks, bool kMid, typename Layout>
__global__ void __launch_bounds__(kThreads, kChunks == 1 ? 4 : 2)
    ForwardKernel(const ResidualNormForward args) {
  using Loaded = PackedRow<T, kChunks>;
  __shared__ __align__(16) SharedColumns<kChunks, 5> columns;
  const Layout layout(args.width);
  const auto load = [&](const ConstRows& rows, long long row) {
    return LoadPackedRow<T, kChunks>(layout, rows, row, row < args.num_rows);
  };
  columns.Fill(layout,
               {args.norm.weight, args.mid.weight, args.mid.bias, args.added_bias, args.norm.bias});
  RowWalk walk(layout, args.num_rows);
  Loaded next_residual = load(args.residual, walk.row);
  Loaded next_added = load(args.added, walk.row);
  __syncthreads();
  for (; !walk.IsWarpDone(); walk.row += walk.step) {
    const Loaded residual = next_residual;
    const Loaded added = next_added;
    next_residual = load(args.residual, walk.row + walk.step);
    next_added = load(args.added, walk.row + walk.step);
    const long long kept = KeptRow(args.kept, walk.row, args.num_rows);

    asm volatile("" ::: "memory");  // else the columns are loaded once, to registers
    float4 statistics = make_float4(0, 0, 0, 0);
    RowValues<kChunks> u =
        Sum(residual.Unpack(), Sum(added.Unpack(), columns.Load(layout, kAddedBias)));
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
    const bool valid = walk.row < args.num_rows;
    StoreRowAs<T>(layout, args.residual_out, kept, u, kept >= 0);
    StoreRowAs<T>(
        layout, args.normalised, walk.row,
        Affine<kChunks>{columns.Load(layout, kWeight), columns.Load(layout, kBias)}(last.x), valid);
    if (valid && args.statistics != nullptr && layout.lane == 0) {
      reinterpret_cast<float4*>(args.statistics)[walk.row] = statistics;
    }
  }
}

// What the backward pass reads of a row; zeros for a row that does not exist.
template <typename T, int kChunks>
struct BackwardInputs {
  PackedRow<T, kChunks> residual, added, d_residual_out, d_normalised;
  float4 statistics;

  template <typename Layout>
  __device__ BackwardInputs(const Layout& layout, const ResidualNormBackward& args, long long row,
                            long long kept)
      : residual(LoadPackedRow<T, kChunks>(layout, args.residual, row, row < args.num_rows)),
        added(LoadPackedRow<T, kChunks>(layout, args.added, row, row < args.num_rows)),
        d_residual_out(LoadPackedRow<T, kChunks>(layout, args.d_residual_out, kept, kept >= 0)),
        d_normalised(
            LoadPackedRow<T, kChunks>(layout, args.d_normalised, row, row < args.num_rows)),
        statistics(row < args.num_rows ? reinterpret_cast<const float4*>(args.statistics)[row]
                                       : make_float4(0, 0, 0, 0)) {}
};

template <typename T, int kChunks, bool kMid, typename Layout>
__global__ void __launch_bounds__(kThreads, kChunks == 1 ? 2 : 1)
    BackwardKernel(const ResidualNormBackward args) {
  __shared__ __align__(16) float scratch[kThreads * kVector * kChunks];
  __shared__ __align__(16) SharedColumns<kChunks, 4> columns;
  const Layout layout(args.width);
  const bool centre = args.norm.bias != nullptr;
  const bool mid_centre = args.mid.bias != nullptr;
  RowValues<kChunks> d_weight{}, d_bias{}, d_mid_weight{}, d_mid_bias{}, d_added_bias{};

  RowWalk walk(layout, args.num_rows);
  BackwardInputs<T, kChunks> next(layout, args, walk.row,
                                  KeptRow(args.kept, walk.row, args.num_rows));
  // A row ahead of the loads that it directs.
  long long next_kept = KeptRow(args.kept, walk.row + walk.step, args.num_rows);
  columns.Fill(layout, {args.norm.weight, args.mid.weight, args.mid.bias, args.added_bias});
  __syncthreads();
  for (; !walk.IsWarpDone(); walk.row += walk.step) {
    const BackwardInputs<T, kChunks> in = next;
    next = BackwardInputs<T, kChunks>(layout, args, walk.row + walk.step, next_kept);
    next_kept = KeptRow(args.kept, walk.row + 2 * walk.step, args.num_rows);

    asm volatile("" ::: "memory");  // else the columns are loaded once, to registers
    RowValues<kChunks> u =
        Sum(in.residual.Unpack(), Sum(in.added.Unpack(), columns.Load(layout, kAddedBias)));
    Standardised<kChunks> middle;
    if constexpr (kMid) {
      middle = StandardiseBy(layout, u, in.statistics.x, in.statistics.y);
      u = Sum(u, Affine<kChunks>{columns.Load(layout, kMidWeight),
                                 columns.Load(layout, kMidBias)}(middle.x));
    }
    const auto last = StandardiseBy(layout, u, in.statistics.z, in.statistics.w);
    const RowValues<kChunks> dy = in.d_normalised.Unpack();
    RowValues<kChunks> g = columns.Load(layout, kWeight);
    ForEach<kChunks>([&](int c, int i) {
      const float d = dy.chunk[c].x[i];
      d_bias.chunk[c].x[i] += d;
      d_weight.chunk[c].x[i] += d * last.x.chunk[c].x[i];
      g.chunk[c].x[i] *= d;
    });
    RowValues<kChunks> ds =
        Sum(in.d_residual_out.Unpack(), StandardiseBackward(layout, last, g, centre));
    if constexpr (kMid) {
      g = columns.Load(layout, kMidWeight);
      ForEach<kChunks>([&](int c, int i) {
        const float d = ds.chunk[c].x[i];
        d_mid_bias.chunk[c].x[i] += d;
        d_mid_weight.chunk[c].x[i] += d * middle.x.chunk[c].x[i];
        g.chunk[c].x[i] *= d;
      });
      ds = Sum(ds, StandardiseBackward(layout, middle, g, mid_centre));
    }
    d_added_bias = Sum(d_added_bias, ds);  // zeros for a row that does not exist
    StoreRowAs<T>(layout, args.d_sum, walk.row, ds, walk.row < args.num_rows);
  }

  float* parts =
      args.partials + static_cast<long long>(blockIdx.x) * kResidualNormWeights * args.width;
  SumGroups(layout, d_weight, scratch, parts);
  SumGroups(layout, d_bias, scratch, parts + args.width);
  SumGroups(layout, d_mid_weight, scratch, parts + 2 * args.width);
  SumGroups(layout, d_mid_bias, scratch, parts + 3 * args.width);
  SumGroups(layout, d_added_bias, scratch, parts + 4 * args.width);
}

// f.template operator()<T, chunks, mid, Layout>() for these rows. The widths of small models have
// kernels of their own.
template <typename F>
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
    with_layout.template operator()<__nv_bfloat16, 1, FullRowLayout<64>>();
  } else if (width == 128) {
    with_layout.template operator()<__nv_bfloat16, 1, FullRowLayout<128>>();
  } else {
    two_chunks ? with_layout.template operator()<__nv_bfloat16, 2, RowLayout>()
               : with_layout.template operator()<__nv_bfloat16, 1, RowLayout>();
  }
}

}  // namespace

int ResidualNormPartials(long long num_rows) {
  const long long parts = (num_rows + kRowsPerPartial - 1) / kRowsPerPartial;
  return static_cast<int>(std::clamp<long long>(parts, 1, kMaxPartials));
}

int LaunchResidualNormForward(const ResidualNormForward& args, CUstream_st* stream) {
  if (args.num_rows == 0) return cudaSuccess;
  const long long rows_per_block = kThreads / LanesFor(args.width);
  const auto grid = static_cast<unsigned>(std::min<long long>(
      (args.num_rows + rows_per_block - 1) / rows_per_block, kMaxForwardBlocks));
  Dispatch(args.element, args.width, args.mid.weight != nullptr,
           [&]<typename T, int kChunks, bool kMid, typename Layout>() {
             ForwardKernel<T, kChunks, kMid, Layout><<<grid, kThreads, 0, stream>>>(args);
           });
  return cudaGetLastError();
}

int LaunchResidualNormBackward(const ResidualNormBackward& args, CUstream_st* stream) {
  const int parts = ResidualNormPartials(args.num_rows);
  Dispatch(args.element, args.width, args.mid.weight != nullptr,
           [&]<typename T, int kChunks, bool kMid, typename Layout>() {
             BackwardKernel<T, kChunks, kMid, Layout>
                 <<<static_cast<unsigned>(parts), kThreads, 0, stream>>>(args);
           });
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  return LaunchSumRows(args.partials, parts, kResidualNormWeights * args.width, args.d_weights,
                       stream);
}

}  // namespace mixerbench::kernels::fused
