// RMSNorm of every head's output, times a gate, forward and backward.
//
// A group of lanes owns a head of a token at a time (row_layout.cuh). The backward pass recomputes
// the norm; a fixed number of blocks walk the heads, keep the gradient of the weight in registers
// and leave one partial sum each for SumRowsKernel. fp32 arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>

#include "kernels/fused/fast_math.cuh"
#include "kernels/fused/output_norm_device.h"
#include "kernels/fused/row_layout.cuh"
#include "kernels/fused/sum_rows.h"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kMaxPartials = 396;
constexpr int kHeadsPerPartial = 64;
constexpr int kForwardHeads = 2;  // of a group of lanes

struct Gate {
  float value;  // a(z)
  float slope;  // a'(z)
};

__device__ Gate Activate(GateActivation activation, float z) {
  if (activation == GateActivation::kNone) return {1, 0};
  const float sigmoid = FastSigmoid(z);
  if (activation == GateActivation::kSigmoid) return {sigmoid, sigmoid * (1 - sigmoid)};
  const float value = z * sigmoid;
  return {value, sigmoid + value * (1 - sigmoid)};
}

// The heads of all tokens, dealt out to the groups of all blocks one after another.
struct HeadWalk {
  int token = 0;
  int head = 0;

  HeadWalk() = default;
  __device__ HeadWalk(int num_heads, int index)
      : token(index / num_heads), head(index - token * num_heads) {}

  // By as many heads as `step` is from the first.
  __device__ void Advance(int num_heads, const HeadWalk& step) {
    token += step.token;
    head += step.head;
    if (head < num_heads) return;
    head -= num_heads;
    ++token;
  }
};

// The first element of a head.
template <typename T, typename AnyRows>
__device__ auto HeadOf(const RowLayout& layout, const AnyRows& rows, const HeadWalk& at) {
  using Pointer =
      std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(rows.data)>>, const T*, T*>;
  return static_cast<Pointer>(rows.data) + static_cast<long long>(at.token) * rows.stride +
         static_cast<long long>(at.head) * layout.width;
}

// Zeros where `rows` is absent and past the end of the row.
template <typename T, int kChunks>
__device__ PackedRow<T, kChunks> LoadHead(const RowLayout& layout, const ConstRows& rows,
                                          const HeadWalk& at) {
  PackedRow<T, kChunks> packed{};
  if (rows.data == nullptr) return packed;
  const T* source = HeadOf<T>(layout, rows, at);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    packed.chunk[c] = LoadPacked(source + layout.Column(c), layout.Active(c));
  }
  return packed;
}

template <typename T, int kChunks>
__device__ void StoreHead(const RowLayout& layout, const Rows& rows, const HeadWalk& at,
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

template <typename T, int kChunks>
__global__ void __launch_bounds__(kThreads) ForwardKernel(const OutputNormForward args) {
  const RowLayout layout(args.sizes.head_dim);
  const int heads = static_cast<int>(args.sizes.num_tokens) * args.sizes.num_heads;
  const int first =
      static_cast<int>(gridDim.x - 1 - blockIdx.x) * layout.num_groups * kForwardHeads;
  HeadWalk at[kForwardHeads];
  PackedRow<T, kChunks> raw_x[kForwardHeads];
  PackedRow<T, kChunks> raw_gate[kForwardHeads];
#pragma unroll
  for (int h = 0; h < kForwardHeads; ++h) {
    const int index = first + h * layout.num_groups + layout.group;
    at[h] = HeadWalk(args.sizes.num_heads, min(index, heads - 1));
    raw_x[h] = LoadHead<T, kChunks>(layout, args.x, at[h]);
    raw_gate[h] = LoadHead<T, kChunks>(layout, args.gate, at[h]);
  }
  const auto weight = LoadColumns<kChunks>(layout, args.weight);
#pragma unroll
  for (int h = 0; h < kForwardHeads; ++h) {
    const auto x = raw_x[h].Unpack();
    const auto gate = raw_gate[h].Unpack();
    const float square =
        HeadMean<kChunks>(layout, [&](int c, int i) { return x.chunk[c].x[i] * x.chunk[c].x[i]; });
    const float scale = InverseRoot(square + args.sizes.eps);
    RowValues<kChunks> y;
    ForEach<kChunks>([&](int c, int i) {
      y.chunk[c].x[i] = weight.chunk[c].x[i] * (scale * x.chunk[c].x[i]) *
                        Activate(args.sizes.activation, gate.chunk[c].x[i]).value;
    });
    if (first + h * layout.num_groups + layout.group < heads) {
      StoreHead<T, kChunks>(layout, args.y, at[h], y);
    }
  }
}

// What the backward pass reads of a head.
template <typename T, int kChunks>
struct HeadInputs {
  PackedRow<T, kChunks> x, gate, dy;

  __device__ HeadInputs(const RowLayout& layout, const OutputNormBackward& args, const HeadWalk& at)
      : x(LoadHead<T, kChunks>(layout, args.x, at)),
        gate(LoadHead<T, kChunks>(layout, args.gate, at)),
        dy(LoadHead<T, kChunks>(layout, args.d_y, at)) {}
};

template <typename T, int kChunks>
__global__ void __launch_bounds__(kThreads, kChunks == 1 && sizeof(T) == 2 ? 3 : 1)
    BackwardKernel(const OutputNormBackward args) {
  __shared__ float scratch[kThreads * kVector * kChunks];
  const RowLayout layout(args.sizes.head_dim);
  const auto weight = LoadColumns<kChunks>(layout, args.weight);
  RowValues<kChunks> d_weight{};
  const int num_heads = args.sizes.num_heads;
  const int heads = static_cast<int>(args.sizes.num_tokens) * num_heads;
  const int step = static_cast<int>(gridDim.x) * layout.num_groups;
  const int base = static_cast<int>(blockIdx.x) * layout.num_groups;
  const HeadWalk stride(num_heads, step);
  HeadWalk at(num_heads, base + layout.group);
  HeadWalk ahead = at;
  const auto load = [&] {
    // Past the end: some head that exists, whose results go nowhere.
    ahead.token = min(ahead.token, static_cast<int>(args.sizes.num_tokens) - 1);
    const HeadInputs<T, kChunks> inputs(layout, args, ahead);
    ahead.Advance(num_heads, stride);
    return inputs;
  };
  HeadInputs<T, kChunks> next = load();
  for (int first = base; first < heads; first += step) {
    const HeadInputs<T, kChunks> raw = next;
    next = load();
    const auto x = raw.x.Unpack();
    const auto dy = raw.dy.Unpack();
    const auto gate = raw.gate.Unpack();
    const bool exists = first + layout.group < heads;
    RowValues<kChunks> g;  // gradient of the row before the weight, then with it
    RowValues<kChunks> d_gate;
    ForEach<kChunks>([&](int c, int i) {
      const Gate a = Activate(args.sizes.activation, gate.chunk[c].x[i]);
      g.chunk[c].x[i] = dy.chunk[c].x[i] * a.value;
      d_gate.chunk[c].x[i] = dy.chunk[c].x[i] * weight.chunk[c].x[i] * a.slope;
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
      d_gate.chunk[c].x[i] *= standard;
      dx.chunk[c].x[i] = scale * (g.chunk[c].x[i] * weight.chunk[c].x[i] - x.chunk[c].x[i] * along);
    });
    StoreHead<T, kChunks>(layout, args.d_x, at, dx);
    StoreHead<T, kChunks>(layout, args.d_gate, at, d_gate);
    at.Advance(num_heads, stride);
  }
  SumGroups(layout, d_weight, scratch,
            args.partials + static_cast<long long>(blockIdx.x) * args.sizes.head_dim);
}

// f.template operator()<element type, chunks>().
template <typename F>
void Dispatch(Element element, int head_dim, F f) {
  const auto with_chunks = [&]<typename T>() {
    if (head_dim <= 32 * kVector) {
      f.template operator()<T, 1>();
    } else {
      f.template operator()<T, 2>();
    }
  };
  if (element == Element::kFloat) {
    with_chunks.template operator()<float>();
  } else {
    with_chunks.template operator()<__nv_bfloat16>();
  }
}

}  // namespace

int OutputNormPartials(const OutputNormSizes& sizes) {
  const long long heads = sizes.num_tokens * sizes.num_heads;
  return static_cast<int>(
      std::clamp<long long>((heads + kHeadsPerPartial - 1) / kHeadsPerPartial, 1, kMaxPartials));
}

int LaunchOutputNormForward(const OutputNormForward& args, CUstream_st* stream) {
  const long long per_block = kThreads / LanesFor(args.sizes.head_dim) * kForwardHeads;
  const long long heads = args.sizes.num_tokens * args.sizes.num_heads;
  const auto grid = static_cast<unsigned>((heads + per_block - 1) / per_block);
  Dispatch(args.x.element, args.sizes.head_dim, [&]<typename T, int kChunks>() {
    ForwardKernel<T, kChunks><<<grid, kThreads, 0, stream>>>(args);
  });
  return cudaGetLastError();
}

int LaunchOutputNormBackward(const OutputNormBackward& args, CUstream_st* stream) {
  const int parts = OutputNormPartials(args.sizes);
  Dispatch(args.x.element, args.sizes.head_dim, [&]<typename T, int kChunks>() {
    BackwardKernel<T, kChunks><<<static_cast<unsigned>(parts), kThreads, 0, stream>>>(args);
  });
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  return LaunchSumRows(args.partials, parts, args.sizes.head_dim, args.d_weight, stream);
}

}  // namespace mixerbench::kernels::fused
