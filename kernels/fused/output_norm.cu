// RMSNorm of every head's output, times a gate, forward and backward.
//
// A group of lanes owns a head of a token at a time (row_layout.cuh). The backward pass recomputes
// the norm; a fixed number of blocks walk the heads, keep the gradient of the weight in registers
// and leave one partial sum each for SumRowsKernel. fp32 arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused/output_norm_device.h"
#include "kernels/fused/row_layout.cuh"
#include "kernels/fused/sum_rows.h"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kMaxPartials = 528;
constexpr int kHeadsPerPartial = 64;

struct Gate {
  float value;  // a(z)
  float slope;  // a'(z)
};

__device__ Gate Activate(GateActivation activation, float z) {
  const float sigmoid = __fdividef(1, 1 + __expf(-z));  // 2 ulp
  switch (activation) {
    case GateActivation::kSilu:
      return {z * sigmoid, sigmoid * (1 + z * (1 - sigmoid))};
    case GateActivation::kSigmoid:
      return {sigmoid, sigmoid * (1 - sigmoid)};
    default:
      return {1, 0};
  }
}

// Head `index` of all heads of all tokens.
struct Head {
  long long token;
  int column;  // its first

  __device__ Head(const OutputNormSizes& sizes, long long index)
      : token(index / sizes.num_heads),
        column(static_cast<int>(index - token * sizes.num_heads) * sizes.head_dim) {}
};

// `rows` of tokens moved to the first column of a head.
template <typename AnyRows>
__device__ AnyRows HeadOf(AnyRows rows, const Head& head) {
  if (rows.data != nullptr) {
    const long long bytes =
        static_cast<long long>(head.column) * (rows.element == Element::kFloat ? 4 : 2);
    rows.data = const_cast<char*>(static_cast<const char*>(rows.data)) + bytes;
  }
  return rows;
}

// What the backward pass reads of a head; zeros for one that does not exist.
template <int kChunks>
struct HeadInputs {
  RowValues<kChunks> x, gate, dy;
};

template <int kChunks>
__device__ HeadInputs<kChunks> LoadInputs(const RowLayout& layout, const OutputNormBackward& args,
                                          long long index) {
  if (index >= args.sizes.num_tokens * args.sizes.num_heads) return {};
  const Head head(args.sizes, index);
  return {LoadRow<kChunks>(layout, HeadOf(args.x, head), head.token),
          LoadRow<kChunks>(layout, HeadOf(args.gate, head), head.token),
          LoadRow<kChunks>(layout, HeadOf(args.d_y, head), head.token)};
}

template <int kChunks>
__global__ void __launch_bounds__(kThreads) ForwardKernel(const OutputNormForward args) {
  const RowLayout layout(args.sizes.head_dim);
  const auto weight = LoadColumns<kChunks>(layout, args.weight);
  const long long heads = args.sizes.num_tokens * args.sizes.num_heads;
  const long long index = static_cast<long long>(blockIdx.x) * layout.num_groups + layout.group;
  const Head head(args.sizes, std::min(index, heads - 1));
  const auto gate = LoadRow<kChunks>(layout, HeadOf(args.gate, head), head.token);
  const auto x = Standardise(layout, LoadRow<kChunks>(layout, HeadOf(args.x, head), head.token),
                             /*centre=*/false, args.sizes.eps)
                     .x;
  if (index >= heads) return;
  RowValues<kChunks> y;
  ForEach<kChunks>([&](int c, int i) {
    y.chunk[c].x[i] = weight.chunk[c].x[i] * x.chunk[c].x[i] *
                      Activate(args.sizes.activation, gate.chunk[c].x[i]).value;
  });
  StoreRow(layout, HeadOf(args.y, head), head.token, y);
}

template <int kChunks>
__global__ void __launch_bounds__(kThreads) BackwardKernel(const OutputNormBackward args) {
  __shared__ float scratch[kThreads * kVector * kChunks];
  const RowLayout layout(args.sizes.head_dim);
  const auto weight = LoadColumns<kChunks>(layout, args.weight);
  RowValues<kChunks> d_weight{};
  const long long heads = args.sizes.num_tokens * args.sizes.num_heads;
  const long long step = static_cast<long long>(gridDim.x) * layout.num_groups;
  long long index = static_cast<long long>(blockIdx.x) * layout.num_groups + layout.group;
  HeadInputs<kChunks> next = LoadInputs<kChunks>(layout, args, index);
  // Every lane of a warp takes part in the sums, so a warp leaves the loop as a whole.
  for (; !__all_sync(0xffffffffu, index >= heads); index += step) {
    const HeadInputs<kChunks> in = next;
    next = LoadInputs<kChunks>(layout, args, index + step);
    const auto x = Standardise(layout, in.x, /*centre=*/false, args.sizes.eps);
    RowValues<kChunks> g;
    RowValues<kChunks> d_gate;
    ForEach<kChunks>([&](int c, int i) {
      const Gate a = Activate(args.sizes.activation, in.gate.chunk[c].x[i]);
      const float d = in.dy.chunk[c].x[i];
      const float gated = d * a.value;
      d_weight.chunk[c].x[i] += gated * x.x.chunk[c].x[i];
      g.chunk[c].x[i] = gated * weight.chunk[c].x[i];
      d_gate.chunk[c].x[i] = d * weight.chunk[c].x[i] * x.x.chunk[c].x[i] * a.slope;
    });
    const auto dx = StandardiseBackward(layout, x, g, /*centre=*/false);
    if (index >= heads) continue;
    const Head head(args.sizes, index);
    StoreRow(layout, HeadOf(args.d_x, head), head.token, dx);
    StoreRow(layout, HeadOf(args.d_gate, head), head.token, d_gate);
  }
  SumGroups(layout, d_weight, scratch,
            args.partials + static_cast<long long>(blockIdx.x) * args.sizes.head_dim);
}

}  // namespace

int OutputNormPartials(const OutputNormSizes& sizes) {
  const long long heads = sizes.num_tokens * sizes.num_heads;
  return static_cast<int>(
      std::clamp<long long>((heads + kHeadsPerPartial - 1) / kHeadsPerPartial, 1, kMaxPartials));
}

int LaunchOutputNormForward(const OutputNormForward& args, CUstream_st* stream) {
  const long long per_block = kThreads / LanesFor(args.sizes.head_dim);
  const long long heads = args.sizes.num_tokens * args.sizes.num_heads;
  const auto grid = static_cast<unsigned>((heads + per_block - 1) / per_block);
  if (args.sizes.head_dim <= 32 * kVector) {
    ForwardKernel<1><<<grid, kThreads, 0, stream>>>(args);
  } else {
    ForwardKernel<2><<<grid, kThreads, 0, stream>>>(args);
  }
  return cudaGetLastError();
}

int LaunchOutputNormBackward(const OutputNormBackward& args, CUstream_st* stream) {
  const int parts = OutputNormPartials(args.sizes);
  if (args.sizes.head_dim <= 32 * kVector) {
    BackwardKernel<1><<<static_cast<unsigned>(parts), kThreads, 0, stream>>>(args);
  } else {
    BackwardKernel<2><<<static_cast<unsigned>(parts), kThreads, 0, stream>>>(args);
  }
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  return LaunchSumRows(args.partials, parts, args.sizes.head_dim, args.d_weight, stream);
}

}  // namespace mixerbench::kernels::fused
