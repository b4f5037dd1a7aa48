// What the two directions of the short convolution share beside the layout: taps, windows, and how
// inputs come.
//
// Inputs travel to shared memory some passes of tokens ahead. Fewer than four taps are four with
// zeros in front, so that there is one kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/convolution/short_convolution_layout.cuh"
#include "kernels/device/fast_math.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/device/warp.cuh"

namespace mixerbench::kernels::short_convolution {

// Before a SiLU, z is held in units of -ln 2, so that exp(-z) = 2^z takes no product: taps and bias
// come in parts of that unit.
template <bool kSilu>
constexpr float kUnit = kSilu ? -1 / kLog2E : 1;

// Weights on their way from rows of taps to lanes of channels; the bias, if any, is the last row.
template <bool kBias>
struct SharedTaps {
  static constexpr int kPitch = kMaxGroup * kVector + kVector;  // no bank meets another tap
  float rows[kTaps + kBias][kPitch];
};

template <bool kBias>
struct Taps {
  Vector weight[kTaps];
  Vector bias;  // if kBias

  // Called by all threads of the block. Zeros past the last channel.
  __device__ Taps(const ChannelShare& share, const ShortConvolutionSizes& sizes,
                  const float* weights, const float* biases, float factor,
                  SharedTaps<kBias>& shared) {
    constexpr int kChannels = kMaxGroup * kVector;
    const int count = min(kChannels, sizes.channels - share.first_channel);
    const int missing = kTaps - sizes.width;
    for (int i = static_cast<int>(threadIdx.x); i < kChannels * kTaps; i += kThreads) {
      const int c = i / kTaps;
      const int m = i % kTaps - missing;
      shared.rows[i % kTaps][c] =
          c < count && m >= 0 ? weights[(share.first_channel + c) * sizes.width + m] * factor : 0;
    }
    for (int c = static_cast<int>(threadIdx.x); kBias && c < kChannels; c += kThreads) {
      shared.rows[kTaps][c] =
          biases != nullptr && c < count ? biases[share.first_channel + c] * factor : 0;
    }
    __syncthreads();
    const int mine = share.channel - share.first_channel;
#pragma unroll
    for (int m = 0; m < kTaps; ++m) weight[m] = LoadFloat(&shared.rows[m][mine]);
    if (kBias) bias = LoadFloat(&shared.rows[kTaps][mine]);
  }
};

// The last kTaps values, the newest at the end.
struct Window {
  Vector x[kTaps];

  __device__ void Push(const Vector& next) {
#pragma unroll
    for (int m = 0; m + 1 < kTaps; ++m) x[m] = x[m + 1];
    x[kTaps - 1] = next;
  }

  template <bool kBias>
  __device__ Vector Convolve(const Taps<kBias>& taps) const {
    Vector z;
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
      z.x[c] = taps.weight[0].x[c] * x[0].x[c] + (kBias ? taps.bias.x[c] : 0);
#pragma unroll
      for (int m = 1; m < kTaps; ++m) z.x[c] += taps.weight[m].x[c] * x[m].x[c];
    }
    return z;
  }
};

// Tokens of a stream in shared memory: passes of kTogether, one that is worked on and the others
// on their way; 16 bytes of a thread lie beside those of its neighbours.
template <typename T>
constexpr int kPieces = sizeof(Packed<T>) / sizeof(uint4);
template <typename T, int kPasses>
using Slots = uint4[kPasses * kTogether][kPieces<T>][kThreads];

// Queues the copy of eight elements to the thread's own place in a slot; zeros unless `valid`.
template <typename T>
__device__ inline void QueueCopy(uint4 (&slot)[kPieces<T>][kThreads], const T* from, bool valid) {
#pragma unroll
  for (int piece = 0; piece < kPieces<T>; ++piece) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(&slot[piece][threadIdx.x]));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(from + piece * (kVector / kPieces<T>)), "r"(valid ? 16 : 0)
                 : "memory");
  }
}

template <typename T>
__device__ inline Vector TakeCopy(const uint4 (&slot)[kPieces<T>][kThreads]) {
  Packed<T> packed;
#pragma unroll
  for (int piece = 0; piece < kPieces<T>; ++piece) {
    reinterpret_cast<uint4*>(&packed)[piece] = slot[piece][threadIdx.x];
  }
  return packed.Unpack();
}

// Tokens of a thread's channels in order, from the first of its span, on the way to its own slots
// of shared memory, so that they cost no registers and no barrier; zeros from token `end` on.
template <typename T>
struct Stream {
  uint4 (*slots)[kPieces<T>][kThreads];
  const T* at;  // of the token to queue next
  long long stride;
  int left;  // tokens not queued yet

  __device__ Stream(const Share& share, const ConstRows& rows, int end,
                    uint4 (*all)[kPieces<T>][kThreads])
      : slots(all),
        at(static_cast<const T*>(rows.data) + (share.span.row0 + share.span.first) * rows.stride +
           share.channel),
        stride(rows.stride),
        left(share.active ? end - share.span.first : 0) {}

  // Those of the next pass.
  __device__ void Queue(int slot) {
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      QueueCopy(slots[slot + j], at, left > 0);
      at += stride;
      --left;
    }
  }

  __device__ Vector Take(int slot) const { return TakeCopy<T>(slots[slot]); }
};

// The passes of a scan: which slots hold the tokens of the present one. Copies of all streams are
// counted in groups, one for each pass.
template <int kPasses>
class Passes {
 public:
  // queue(slot) queues the tokens of the next pass of every stream to the slots from there on.
  template <typename Queue>
  __device__ void Start(Queue queue) {
#pragma unroll
    for (int pass = 0; pass + 1 < kPasses; ++pass) QueuePass(pass * kTogether, queue);
  }

  // Waits for the next pass and queues the last one that there are slots for; the slot of the
  // pass's first token.
  template <typename Queue>
  __device__ int Next(Queue queue) {
    device::WaitForCopies<kPasses - 2>();
    constexpr int kLast = (kPasses - 1) * kTogether;
    const int slot = slot_;
    QueuePass(slot == 0 ? kLast : slot - kTogether, queue);
    slot_ = slot == kLast ? 0 : slot + kTogether;
    return slot;
  }

 private:
  template <typename Queue>
  static __device__ void QueuePass(int slot, Queue queue) {
    queue(slot);
    device::CommitCopies();
  }

  int slot_ = 0;
};

template <typename T>
__device__ inline T* At(const Share& share, const Rows& rows, int t) {
  return static_cast<T*>(rows.data) + (share.span.row0 + share.span.first + t) * rows.stride +
         share.channel;
}

// By predicate, not by a branch: tokens whose code holds none overlap. Nothing here reads what is
// stored, so other accesses may pass it.
__device__ inline void StoreIf(bool wanted, void* target, uint4 bits) {
  asm volatile(
      "{\n"
      ".reg .pred wanted;\n"
      "setp.ne.b32 wanted, %0, 0;\n"
      "@wanted st.global.v4.b32 [%1], {%2, %3, %4, %5};\n"
      "}" ::"r"(static_cast<int>(wanted)),
      "l"(target), "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w));
}

template <typename T>
__device__ inline void StoreIf(bool wanted, T* target, const Vector& v) {
  Packed<T> packed;
  StoreVector(reinterpret_cast<T*>(&packed), v);
#pragma unroll
  for (int piece = 0; piece < kPieces<T>; ++piece) {
    StoreIf(wanted, target + piece * (kVector / kPieces<T>),
            reinterpret_cast<const uint4*>(&packed)[piece]);
  }
}

// The inputs before token t of a sequence, which is at `at`; zeros outside the sequence.
template <typename T>
__device__ inline Window WindowBefore(const T* at, long long stride, int t, int seq_len) {
  Window window{};
#pragma unroll
  for (int m = 1; m < kTaps; ++m) {
    const int s = t - kTaps + m;
    window.Push(LoadPacked(at + (m - kTaps) * stride, s >= 0 && s < seq_len).Unpack());
  }
  return window;
}

// Those before the share.
template <typename T>
__device__ inline Window WindowBefore(const Share& share, const ConstRows& x) {
  const long long row = share.span.row0 + share.span.first;
  return WindowBefore(static_cast<const T*>(x.data) + row * x.stride + share.channel, x.stride,
                      share.active ? share.span.first : 0, share.span.last);
}

// Sum over the lanes of a head, at most kMaxLanes.
template <int kMaxLanes = kMaxGroup>
__device__ inline float HeadSum(const ChannelShare& share, float x) {
  return ScaledGroupSum<kMaxLanes>(x, share.head_lanes) * GroupScale<kMaxLanes>(share.head_lanes);
}

// In two strands, which take half as long as one.
__device__ inline float Dot(const Vector& a, const Vector& b) {
  float even = a.x[0] * b.x[0];
  float odd = a.x[1] * b.x[1];
#pragma unroll
  for (int c = 2; c < kVector; c += 2) {
    even += a.x[c] * b.x[c];
    odd += a.x[c + 1] * b.x[c + 1];
  }
  return even + odd;
}

// From z of some tokens, in the unit, to their outputs: activation and, if kNorm, perhaps the norm
// of a head.
// Step by step for all tokens: sums over lanes, which keep their order, are waited for once.
template <bool kSilu, bool kNorm, int kCount>
__device__ inline void Activate(Vector (&y)[kCount], bool normalised, int head_lanes,
                                float norm_eps) {
  float scale[kCount];
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    scale[j] = kUnit<kSilu>;
    if (kSilu) {
#pragma unroll
      for (float& value : y[j].x) value *= Reciprocal(1 + Exp2(value));
    }
  }
  if (kNorm) {
    float sum[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum[j] = Dot(y[j], y[j]);
#pragma unroll
    for (int offset = 1; offset < kMaxGroup; offset *= 2) {
#pragma unroll
      for (float& s : sum) s += __shfl_xor_sync(0xffffffffu, s, offset & (head_lanes - 1));
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const float square = sum[j] * GroupScale<kMaxGroup>(head_lanes) * (scale[j] * scale[j]);
      if (normalised) scale[j] *= InverseRoot(square + norm_eps);
    }
  }
  if (kSilu || kNorm) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
#pragma unroll
      for (float& value : y[j].x) value *= scale[j];
    }
  }
}

// f.template operator()<element type, silu, bias>(). Without a SiLU there always is a bias, of
// zeros if need be: one kernel less.
template <typename F>
void Dispatch(Element element, bool silu, bool has_bias, F f) {
  const auto with_type = [&]<typename T>() {
    if (!silu) {
      f.template operator()<T, false, true>();
    } else if (has_bias) {
      f.template operator()<T, true, true>();
    } else {
      f.template operator()<T, true, false>();
    }
  };
  if (element == Element::kFloat) {
    with_type.template operator()<float>();
  } else {
    with_type.template operator()<__nv_bfloat16>();
  }
}

}  // namespace mixerbench::kernels::short_convolution
