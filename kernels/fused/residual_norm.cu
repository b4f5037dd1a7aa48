// Residual addition and one or two norms, forward and backward.
//
// Forward: a group of lanes owns a row at a time (row_layout.cuh), everything stays in registers.
// Backward: a fixed number of blocks walk the rows; a lane recomputes its row's norms and keeps the
// weight gradients of its eight columns in registers. A block adds its groups in order and leaves
// one partial sum; SumRowsKernel adds those in order. All arithmetic in fp32; deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused/residual_norm_device.h"
#include "kernels/fused/row_layout.cuh"
#include "kernels/fused/sum_rows.h"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kMaxPartials = 264;
constexpr int kRowsPerPartial = 64;

template <int kChunks>
__device__ RowValues<kChunks> Sum(const RowValues<kChunks>& a, const RowValues<kChunks>& b) {
  RowValues<kChunks> sum;
  ForEach<kChunks>([&](int c, int i) { sum.chunk[c].x[i] = a.chunk[c].x[i] + b.chunk[c].x[i]; });
  return sum;
}

// -1: the row is not kept.
__device__ long long KeptRow(const KeptRows& kept, long long row) {
  if (kept.entries == nullptr) return row;
  const long long entry = kept.entries[row];
  return entry < kept.num_kept ? entry : -1;
}

// weight * x + bias; the bias of an RMSNorm is loaded as zeros.
template <int kChunks>
struct Affine {
  RowValues<kChunks> weight, bias;

  __device__ Affine(const RowLayout& layout, const NormWeights& norm)
      : weight(LoadColumns<kChunks>(layout, norm.weight)),
        bias(LoadColumns<kChunks>(layout, norm.bias)) {}

  __device__ RowValues<kChunks> operator()(const RowValues<kChunks>& x) const {
    RowValues<kChunks> y;
    ForEach<kChunks>([&](int c, int i) {
      y.chunk[c].x[i] = weight.chunk[c].x[i] * x.chunk[c].x[i] + bias.chunk[c].x[i];
    });
    return y;
  }
};

template <int kChunks, bool kMid>
__global__ void __launch_bounds__(kThreads) ForwardKernel(const ResidualNormForward args) {
  const RowLayout layout(args.width);
  const Affine<kChunks> mid(layout, args.mid);
  const Affine<kChunks> norm(layout, args.norm);
  const auto added_bias = LoadColumns<kChunks>(layout, args.added_bias);
  const long long step = static_cast<long long>(gridDim.x) * layout.num_groups;
  const long long first = static_cast<long long>(blockIdx.x) * layout.num_groups + layout.group;
  // Every lane of a warp takes part in the sums, so a warp leaves the loop as a whole.
  for (long long row = first;; row += step) {
    if (__all_sync(0xffffffffu, row >= args.num_rows)) break;
    const bool valid = row < args.num_rows;
    const long long source = valid ? row : args.num_rows - 1;
    RowValues<kChunks> u = Sum(LoadRow<kChunks>(layout, args.residual, source),
                               Sum(LoadRow<kChunks>(layout, args.added, source), added_bias));
    if constexpr (kMid) {
      u = Sum(u, mid(Standardise(layout, u, args.mid.bias != nullptr, args.mid.eps).x));
    }
    const auto x = Standardise(layout, u, args.norm.bias != nullptr, args.norm.eps).x;
    if (!valid) continue;
    const long long kept = KeptRow(args.kept, row);
    if (kept >= 0) StoreRow(layout, args.residual_out, kept, u);
    StoreRow(layout, args.normalised, row, norm(x));
  }
}

// What the backward pass reads of a row; zeros for a row that does not exist.
template <int kChunks>
struct BackwardInputs {
  RowValues<kChunks> residual, added, du, dy;
};

template <int kChunks>
__device__ BackwardInputs<kChunks> LoadInputs(const RowLayout& layout,
                                              const ResidualNormBackward& args, long long row) {
  if (row >= args.num_rows) return {};
  const long long kept = KeptRow(args.kept, row);
  return {LoadRow<kChunks>(layout, args.residual, row), LoadRow<kChunks>(layout, args.added, row),
          kept >= 0 ? LoadRow<kChunks>(layout, args.d_residual_out, kept) : RowValues<kChunks>{},
          LoadRow<kChunks>(layout, args.d_normalised, row)};
}

template <int kChunks, bool kMid>
__global__ void __launch_bounds__(kThreads) BackwardKernel(const ResidualNormBackward args) {
  __shared__ float scratch[kThreads * kVector * kChunks];
  const RowLayout layout(args.width);
  const bool centre = args.norm.bias != nullptr;
  const bool mid_centre = args.mid.bias != nullptr;
  const Affine<kChunks> mid(layout, args.mid);
  const RowValues<kChunks> weight = LoadColumns<kChunks>(layout, args.norm.weight);
  const auto added_bias = LoadColumns<kChunks>(layout, args.added_bias);
  RowValues<kChunks> d_weight{}, d_bias{}, d_mid_weight{}, d_mid_bias{}, d_added_bias{};

  const long long step = static_cast<long long>(gridDim.x) * layout.num_groups;
  long long row = static_cast<long long>(blockIdx.x) * layout.num_groups + layout.group;
  // Every lane of a warp takes part in the sums, so a warp leaves the loop as a whole.
  for (; !__all_sync(0xffffffffu, row >= args.num_rows); row += step) {
    const BackwardInputs<kChunks> in = LoadInputs<kChunks>(layout, args, row);
    const RowValues<kChunks> s = Sum(in.residual, Sum(in.added, added_bias));
    RowValues<kChunks> u = s;
    Standardised<kChunks> middle;
    if constexpr (kMid) {
      middle = Standardise(layout, s, mid_centre, args.mid.eps);
      u = Sum(s, mid(middle.x));
    }
    const auto last = Standardise(layout, u, centre, args.norm.eps);
    RowValues<kChunks> g;
    ForEach<kChunks>([&](int c, int i) {
      const float d = in.dy.chunk[c].x[i];
      d_bias.chunk[c].x[i] += d;
      d_weight.chunk[c].x[i] += d * last.x.chunk[c].x[i];
      g.chunk[c].x[i] = d * weight.chunk[c].x[i];
    });
    RowValues<kChunks> ds = Sum(in.du, StandardiseBackward(layout, last, g, centre));
    if constexpr (kMid) {
      ForEach<kChunks>([&](int c, int i) {
        const float d = ds.chunk[c].x[i];
        d_mid_bias.chunk[c].x[i] += d;
        d_mid_weight.chunk[c].x[i] += d * middle.x.chunk[c].x[i];
        g.chunk[c].x[i] = d * mid.weight.chunk[c].x[i];
      });
      ds = Sum(ds, StandardiseBackward(layout, middle, g, mid_centre));
    }
    if (row >= args.num_rows) continue;  // its gradients are zeros
    d_added_bias = Sum(d_added_bias, ds);
    StoreRow(layout, args.d_residual, row, ds);
    StoreRow(layout, args.d_added, row, ds);
  }

  float* parts =
      args.partials + static_cast<long long>(blockIdx.x) * kResidualNormWeights * args.width;
  SumGroups(layout, d_weight, scratch, parts);
  SumGroups(layout, d_bias, scratch, parts + args.width);
  SumGroups(layout, d_mid_weight, scratch, parts + 2 * args.width);
  SumGroups(layout, d_mid_bias, scratch, parts + 3 * args.width);
  SumGroups(layout, d_added_bias, scratch, parts + 4 * args.width);
}

// f.template operator()<chunks, mid>() for the row width.
template <typename F>
void Dispatch(int width, bool mid, F f) {
  const int chunks = (width + 32 * kVector - 1) / (32 * kVector);
  if (chunks == 1) {
    mid ? f.template operator()<1, true>() : f.template operator()<1, false>();
  } else {
    mid ? f.template operator()<2, true>() : f.template operator()<2, false>();
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
  const auto grid = static_cast<unsigned>(
      std::min<long long>((args.num_rows + rows_per_block - 1) / rows_per_block, 1 << 16));
  Dispatch(args.width, args.mid.weight != nullptr, [&]<int kChunks, bool kMid>() {
    ForwardKernel<kChunks, kMid><<<grid, kThreads, 0, stream>>>(args);
  });
  return cudaGetLastError();
}

int LaunchResidualNormBackward(const ResidualNormBackward& args, CUstream_st* stream) {
  const int parts = ResidualNormPartials(args.num_rows);
  Dispatch(args.width, args.mid.weight != nullptr, [&]<int kChunks, bool kMid>() {
    BackwardKernel<kChunks, kMid><<<static_cast<unsigned>(parts), kThreads, 0, stream>>>(args);
  });
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  return LaunchSumRows(args.partials, parts, kResidualNormWeights * args.width, args.d_weights,
                       stream);
}

}  // namespace mixerbench::kernels::fused
