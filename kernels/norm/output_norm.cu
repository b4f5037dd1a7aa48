// RMSNorm of every head's output, with a gate before or after it, forward and backward.
//
// A group of lanes owns a head of a token at a time (row_layout.cuh). The backward pass recomputes
// the norm; a fixed number of blocks scan the heads, keep the gradient of the weight in registers
// and leave one partial sum each for SumRowsKernel. fp32 arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>

#include "kernels/device/dependent_launch.cuh"
#include "kernels/device/fast_math.cuh"
#include "kernels/device/row_layout.cuh"
#include "kernels/device/sum_rows.h"
#include "kernels/norm/output_norm_cuda.h"

namespace mixerbench::kernels {
namespace {

constexpr int kHeadsPerPartial = 64;
constexpr int kForwardHeads = 2;  // of a group of lanes

enum class Gating { kNone, kAfterNorm, kBeforeNorm };

// Blocks of the backward pass that one multiprocessor holds: a gate takes registers.
constexpr int BackwardBlocks(Gating gating) { return gating == Gating::kNone ? 4 : 3; }
constexpr int kMultiprocessors = 132;  // of the GPU that the number of partial sums is made for

struct Gate {
  float value;  // a(z)
  float slope;  // a'(z)
};

template <Gating kGating>
__device__ Gate Activate(GateActivation activation, float z) {
  if constexpr (kGating == Gating::kNone) return {1, 0};
  const float sigmoid = FastSigmoid(z);
  if (activation == GateActivation::kSigmoid) return {sigmoid, sigmoid * (1 - sigmoid)};
  const float value = z * sigmoid;
  return {value, sigmoid + value * (1 - sigmoid)};
}

// The heads of all tokens, dealt out to the groups of all blocks one after another.
struct HeadScan {
  int token = 0;
  int head = 0;

  HeadScan() = default;
  __device__ HeadScan(int num_heads, int index)
      : token(index / num_heads), head(index - token * num_heads) {}

  // By as many heads as `step` is from the first.
  __device__ void Advance(int num_heads, const HeadScan& step) {
    token += step.token;
    head += step.head;
    if (head < num_heads) return;
    head -= num_heads;
    ++token;
  }
};

// The first element of a head.
template <typename T, typename Layout, typename AnyRows>
__device__ auto HeadOf(const Layout& layout, const AnyRows& rows, const HeadScan& at) {
  using Pointer =
      std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(rows.data)>>, const T*, T*>;
  return static_cast<Pointer>(rows.data) + static_cast<long long>(at.token) * rows.stride +
         at.head * layout.width;
}

// Zeros past the end of the row.
template <typename T, int kChunks, typename Layout>
__device__ PackedRow<T, kChunks> LoadHead(const Layout& layout, const ConstRows& rows,
                                          const HeadScan& at) {
  PackedRow<T, kChunks> packed;
  const T* source = HeadOf<T>(layout, rows, at);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    packed.chunk[c] = LoadPacked(source + layout.Column(c), layout.Active(c));
  }
  return packed;
}

template <typename T, int kChunks, typename Layout>
__device__ void StoreHead(const Layout& layout, const Rows& rows, const HeadScan& at,
                          const RowValues<kChunks>& values) {
  if (rows.data == nullptr) return;
  T* target = HeadOf<T>(layout, rows, at);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (layout.Active(c)) StoreVector(target + layout.Column(c), values.chunk[c]);
  }
}

// sum over a head of f(chunk, i), times 1 / head_dim.
template <int kChunks, typename F>
__device__ float HeadMean(const RowLayout& layout, F f) {
  float sum = 0;
  ForEach<kChunks>([&](int c, int i) { sum += f(c, i); });
  return ScaledGroupSum<32>(sum, layout.lanes) *
         (GroupScale<32>(layout.lanes) / static_cast<float>(layout.width));
}
template <int kChunks, int kWidth, typename F>
__device__ float HeadMean(const FullRowLayout<kWidth, kChunks>& layout, F f) {
  return RowSum<kChunks>(layout, f) * (1.0f / kWidth);
}

// What a pass reads of a head besides the gradient.
template <typename T, int kChunks, Gating kGating>
struct HeadInputs {
  PackedRow<T, kChunks> x, gate;

  HeadInputs() = default;
  template <typename Layout, typename Args>
  __device__ HeadInputs(const Layout& layout, const Args& args, const HeadScan& at)
      : x(LoadHead<T, kChunks>(layout, args.x, at)), gate{} {
    if constexpr (kGating != Gating::kNone) gate = LoadHead<T, kChunks>(layout, args.gate, at);
  }
};

template <typename T, int kChunks, Gating kGating, typename Layout>
__global__ void __launch_bounds__(kThreads) ForwardKernel(const OutputNormForward args) {
  const Layout layout(args.sizes.head_dim);
  const int num_heads = args.sizes.num_heads;
  const int heads = static_cast<int>(args.sizes.num_tokens) * num_heads;
  const int first =
      static_cast<int>(gridDim.x - 1 - blockIdx.x) * layout.num_groups * kForwardHeads +
      layout.group;
  const HeadScan step(num_heads, layout.num_groups);
  HeadScan at[kForwardHeads];
  HeadInputs<T, kChunks, kGating> inputs[kForwardHeads];
#pragma unroll
  for (int h = 0; h < kForwardHeads; ++h) {
    if (h == 0) {
      at[h] = HeadScan(num_heads, min(first, heads - 1));
    } else {
      at[h] = at[h - 1];
      if (first + h * layout.num_groups < heads) at[h].Advance(num_heads, step);
    }
    inputs[h] = HeadInputs<T, kChunks, kGating>(layout, args, at[h]);
  }
  const auto weight = LoadColumns<kChunks>(layout, args.weight);
#pragma unroll
  for (int h = 0; h < kForwardHeads; ++h) {
    auto x = inputs[h].x.Unpack();
    auto gate = inputs[h].gate.Unpack();
    ForEach<kChunks>([&](int c, int i) {
      gate.chunk[c].x[i] = Activate<kGating>(args.sizes.activation, gate.chunk[c].x[i]).value;
      if constexpr (kGating == Gating::kBeforeNorm) x.chunk[c].x[i] *= gate.chunk[c].x[i];
    });
    const float square =
        HeadMean<kChunks>(layout, [&](int c, int i) { return x.chunk[c].x[i] * x.chunk[c].x[i]; });
    const float scale = InverseRoot(square + args.sizes.eps);
    RowValues<kChunks> y;
    ForEach<kChunks>([&](int c, int i) {
      y.chunk[c].x[i] = weight.chunk[c].x[i] * (scale * x.chunk[c].x[i]);
      if constexpr (kGating == Gating::kAfterNorm) y.chunk[c].x[i] *= gate.chunk[c].x[i];
    });
    if (first + h * layout.num_groups < heads) {
      StoreHead<T, kChunks>(layout, args.y, at[h], y);
    }
  }
}

template <typename T, int kChunks, Gating kGating, typename Layout>
__global__ void __launch_bounds__(kThreads,
                                  kChunks == 1 && sizeof(T) == 2 ? BackwardBlocks(kGating) : 1)
    BackwardKernel(const OutputNormBackward args) {
  __shared__ float scratch[kThreads * kVector * kChunks];
  LetNextStart();
  const Layout layout(args.sizes.head_dim);
  const auto weight = LoadColumns<kChunks>(layout, args.weight);
  RowValues<kChunks> d_weight{};
  const int num_heads = args.sizes.num_heads;
  const int heads = static_cast<int>(args.sizes.num_tokens) * num_heads;
  const int step = static_cast<int>(gridDim.x) * layout.num_groups;
  const int base = static_cast<int>(blockIdx.x) * layout.num_groups;
  const HeadScan stride(num_heads, step);
  HeadScan at(num_heads, base + layout.group);
  HeadScan ahead = at;
  HeadInputs<T, kChunks, kGating> next;
  PackedRow<T, kChunks> next_dy;
  const auto load = [&] {
    // Past the end: some head that exists, whose results go nowhere.
    ahead.token = min(ahead.token, static_cast<int>(args.sizes.num_tokens) - 1);
    next = HeadInputs<T, kChunks, kGating>(layout, args, ahead);
    next_dy = LoadHead<T, kChunks>(layout, args.d_y, ahead);
    ahead.Advance(num_heads, stride);
  };
  load();
  for (int first = base; first < heads; first += step) {
    auto x = next.x.Unpack();
    const auto gate = next.gate.Unpack();
    const auto dy = next_dy.Unpack();
    load();
    const bool exists = first + layout.group < heads;
    RowValues<kChunks> g;       // gradient of what the weight multiplied
    RowValues<kChunks> d_gate;  // without the factor that is known after the norm
    RowValues<kChunks> a_of_gate;
    ForEach<kChunks>([&](int c, int i) {
      const Gate a = Activate<kGating>(args.sizes.activation, gate.chunk[c].x[i]);
      if constexpr (kGating == Gating::kBeforeNorm) {
        g.chunk[c].x[i] = dy.chunk[c].x[i];
        d_gate.chunk[c].x[i] = x.chunk[c].x[i] * a.slope;
        a_of_gate.chunk[c].x[i] = a.value;
        x.chunk[c].x[i] *= a.value;
      } else {
        g.chunk[c].x[i] = dy.chunk[c].x[i] * a.value;
        d_gate.chunk[c].x[i] = dy.chunk[c].x[i] * weight.chunk[c].x[i] * a.slope;
      }
    });
    const float square =
        HeadMean<kChunks>(layout, [&](int c, int i) { return x.chunk[c].x[i] * x.chunk[c].x[i]; });
    const float product = HeadMean<kChunks>(layout, [&](int c, int i) {
      return g.chunk[c].x[i] * weight.chunk[c].x[i] * x.chunk[c].x[i];
    });
    if (!exists) continue;
    const float scale = InverseRoot(square + args.sizes.eps);
    const float along = product * scale * scale;
    RowValues<kChunks> dx;
    ForEach<kChunks>([&](int c, int i) {
      const float standard = scale * x.chunk[c].x[i];
      d_weight.chunk[c].x[i] += g.chunk[c].x[i] * standard;
      const float d = scale * (g.chunk[c].x[i] * weight.chunk[c].x[i] - x.chunk[c].x[i] * along);
      if constexpr (kGating == Gating::kBeforeNorm) {
        d_gate.chunk[c].x[i] *= d;
        dx.chunk[c].x[i] = d * a_of_gate.chunk[c].x[i];
      } else {
        d_gate.chunk[c].x[i] *= standard;
        dx.chunk[c].x[i] = d;
      }
    });
    StoreHead<T, kChunks>(layout, args.d_x, at, dx);
    if constexpr (kGating != Gating::kNone) StoreHead<T, kChunks>(layout, args.d_gate, at, d_gate);
    at.Advance(num_heads, stride);
  }
  SumGroups(layout, d_weight, scratch,
            args.partials + static_cast<long long>(blockIdx.x) * args.sizes.head_dim);
}

// f.template operator()<element type, chunks, gating, layout>(). The heads of small models have
// kernels of their own.
template <typename F>
void Dispatch(Element element, const OutputNormSizes& sizes, F f) {
  const auto with_layout = [&]<typename T, int kChunks, typename Layout>() {
    if (sizes.activation == GateActivation::kNone) {
      f.template operator()<T, kChunks, Gating::kNone, Layout>();
    } else if (sizes.gate_before_norm) {
      f.template operator()<T, kChunks, Gating::kBeforeNorm, Layout>();
    } else {
      f.template operator()<T, kChunks, Gating::kAfterNorm, Layout>();
    }
  };
  const bool two_chunks = sizes.head_dim > 32 * kVector;
  if (element == Element::kFloat) {
    two_chunks ? with_layout.template operator()<float, 2, RowLayout>()
               : with_layout.template operator()<float, 1, RowLayout>();
  } else if (sizes.head_dim == 64) {
    with_layout.template operator()<__nv_bfloat16, 1, FullRowLayout<64, 1>>();
  } else if (sizes.head_dim == 128) {
    with_layout.template operator()<__nv_bfloat16, 1, FullRowLayout<128, 1>>();
  } else {
    two_chunks ? with_layout.template operator()<__nv_bfloat16, 2, RowLayout>()
               : with_layout.template operator()<__nv_bfloat16, 1, RowLayout>();
  }
}

}  // namespace

int OutputNormPartials(const OutputNormSizes& sizes) {
  const long long heads = sizes.num_tokens * sizes.num_heads;
  const long long most = kMultiprocessors * BackwardBlocks(sizes.activation == GateActivation::kNone
                                                               ? Gating::kNone
                                                               : Gating::kAfterNorm);
  return static_cast<int>(
      std::clamp<long long>((heads + kHeadsPerPartial - 1) / kHeadsPerPartial, 1, most));
}

int LaunchOutputNormForward(const OutputNormForward& args, CUstream_st* stream) {
  const long long per_block = kThreads / LanesFor(args.sizes.head_dim) * kForwardHeads;
  const long long heads = args.sizes.num_tokens * args.sizes.num_heads;
  const auto grid = static_cast<unsigned>((heads + per_block - 1) / per_block);
  Dispatch(args.x.element, args.sizes,
           [&]<typename T, int kChunks, Gating kGating, typename Layout>() {
             ForwardKernel<T, kChunks, kGating, Layout><<<grid, kThreads, 0, stream>>>(args);
           });
  return cudaGetLastError();
}

int LaunchOutputNormBackward(const OutputNormBackward& args, CUstream_st* stream) {
  const int parts = OutputNormPartials(args.sizes);
  Dispatch(args.x.element, args.sizes,
           [&]<typename T, int kChunks, Gating kGating, typename Layout>() {
             BackwardKernel<T, kChunks, kGating, Layout>
                 <<<static_cast<unsigned>(parts), kThreads, 0, stream>>>(args);
           });
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  return LaunchSumRows(args.partials, parts, args.sizes.head_dim, args.d_weight, stream);
}

}  // namespace mixerbench::kernels
