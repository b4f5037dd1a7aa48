// The linear recurrence in chunks of time, three kernels. A thread owns one channel of one chunk
// and takes its tokens in order; neighbouring threads own neighbouring channels. No shared memory,
// no alignment beyond that of the numbers; sums in fp32, exponentials in the precision of the log
// decays; deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/linear_attention/linear_recurrence/linear_recurrence_kernels.h"

namespace mixerbench::kernels::linear_recurrence {
namespace {

constexpr int kThreads = 128;

__device__ float Zero(float) { return 0; }
__device__ float2 Zero(float2) { return make_float2(0, 0); }
__device__ float Conj(float a) { return a; }
__device__ float2 Conj(float2 a) { return make_float2(a.x, -a.y); }
__device__ float Add(float a, float b) { return a + b; }
__device__ float2 Add(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float Multiply(float a, float b) { return a * b; }
__device__ float2 Multiply(float2 a, float2 b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// exp(count log).
__device__ float Power(float log, float count) { return expf(count * log); }
__device__ float Power(double log, double count) { return static_cast<float>(exp(count * log)); }
__device__ float2 Power(float2 log, float count) {
  float sine, cosine;
  sincosf(count * log.y, &sine, &cosine);
  const float size = expf(count * log.x);
  return make_float2(size * cosine, size * sine);
}
__device__ float2 Power(double2 log, double count) {
  double sine, cosine;
  sincos(count * log.y, &sine, &cosine);
  const double size = exp(count * log.x);
  return make_float2(static_cast<float>(size * cosine), static_cast<float>(size * sine));
}

__device__ void AddTo(float& sum, float log) { sum += log; }
__device__ void AddTo(double& sum, double log) { sum += log; }
__device__ void AddTo(float2& sum, float2 log) { sum = Add(sum, log); }
__device__ void AddTo(double2& sum, double2 log) {
  sum.x += log.x;
  sum.y += log.y;
}

// Where a thread works: channel `channel` of tokens first..first+count-1 of sequence `batch`.
struct Chunk {
  std::int64_t index;  // of [B,N,C]
  std::int64_t batch, channel, first;
  int count;

  __device__ explicit Chunk(const RecurrenceProblem& p, std::int64_t num_chunks) {
    index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    channel = index % p.num_channels;
    batch = index / p.num_channels / num_chunks;
    first = index / p.num_channels % num_chunks * kChunk;
    count = static_cast<int>(min(p.seq_len - first, std::int64_t{kChunk}));
  }

  // The i-th token in the order of the pass, as an index of [B,T,C].
  __device__ std::int64_t Element(const RecurrenceProblem& p, int i) const {
    const std::int64_t token = first + (p.is_backward ? count - 1 - i : i);
    return (batch * p.seq_len + token) * p.num_channels + channel;
  }
};

// The decays that a thread meets. L: type of a log decay.
template <typename H, typename L, bool kConstant>
class Decays {
 public:
  __device__ Decays(const RecurrenceProblem& p, std::int64_t channel)
      : log_(static_cast<const L*>(p.log_decay)) {
    if (!kConstant) return;
    constant_log_ = log_[channel];
    constant_ = Power(constant_log_, 1);
  }

  __device__ H At(std::int64_t element) const {
    return kConstant ? constant_ : Power(log_[element], 1);
  }

  // Of all tokens of a chunk.
  __device__ H Product(const RecurrenceProblem& p, const Chunk& chunk) const {
    if (kConstant) return Power(constant_log_, chunk.count);
    L sum = log_[chunk.Element(p, 0)];
    for (int i = 1; i < chunk.count; ++i) AddTo(sum, log_[chunk.Element(p, i)]);
    return Power(sum, 1);
  }

 private:
  const L* __restrict__ log_;
  L constant_log_;
  H constant_;
};

// What the pass carries past a token: lambda h + x, or conj(lambda) (h + x). `h` of that token goes
// to the second value.
template <typename H>
__device__ H Step(bool is_backward, H decay, H carried, H x, H* h) {
  if (is_backward) {
    *h = Add(carried, x);
    return Multiply(Conj(decay), *h);
  }
  return *h = Add(Multiply(decay, carried), x);
}

// The chunks from a state of zeros, and the products of their decays.
template <typename H, typename L, bool kConstant>
__global__ void __launch_bounds__(kThreads)
    SumChunks(const RecurrenceProblem p, std::int64_t num_chunks) {
  const Chunk chunk(p, num_chunks);
  if (chunk.batch >= p.batch_size) return;
  const Decays<H, L, kConstant> decays(p, chunk.channel);
  const H* __restrict__ x = static_cast<const H*>(p.x);
  H carried = Zero(H{});
  H h;
#pragma unroll 8
  for (int i = 0; i < chunk.count; ++i) {
    const std::int64_t element = chunk.Element(p, i);
    carried = Step(p.is_backward, decays.At(element), carried, x[element], &h);
  }
  const H product = decays.Product(p, chunk);
  static_cast<H*>(p.sums)[chunk.index] = carried;
  static_cast<H*>(p.products)[chunk.index] = p.is_backward ? Conj(product) : product;
}

// The states between the chunks: a thread owns a channel of a sequence.
template <typename H>
__global__ void __launch_bounds__(kThreads)
    JoinChunks(const RecurrenceProblem p, std::int64_t num_chunks) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= p.batch_size * p.num_channels) return;
  const std::int64_t batch = index / p.num_channels;
  const std::int64_t channel = index % p.num_channels;
  const H* __restrict__ sums = static_cast<const H*>(p.sums);
  const H* __restrict__ products = static_cast<const H*>(p.products);
  H* __restrict__ states = static_cast<H*>(p.states);
  H state = p.entering == nullptr ? Zero(H{}) : static_cast<const H*>(p.entering)[index];
#pragma unroll 8
  for (std::int64_t i = 0; i < num_chunks; ++i) {
    const std::int64_t chunk = p.is_backward ? num_chunks - 1 - i : i;
    const std::int64_t at = (batch * num_chunks + chunk) * p.num_channels + channel;
    states[at] = state;
    state = Add(Multiply(products[at], state), sums[at]);
  }
  if (p.d_initial_state != nullptr) static_cast<H*>(p.d_initial_state)[index] = state;
}

// h_{t-1} of the forward pass.
template <typename H>
__device__ H Before(const RecurrenceProblem& p, const Chunk& chunk, std::int64_t element) {
  const std::int64_t first_token = chunk.batch * p.seq_len * p.num_channels + chunk.channel;
  if (element != first_token) return static_cast<const H*>(p.forward_h)[element - p.num_channels];
  if (p.initial_state == nullptr) return Zero(H{});
  return static_cast<const H*>(p.initial_state)[chunk.batch * p.num_channels + chunk.channel];
}

// The chunks from the states that enter them.
template <typename H, typename L, bool kConstant>
__global__ void __launch_bounds__(kThreads)
    ScanChunks(const RecurrenceProblem p, std::int64_t num_chunks) {
  const Chunk chunk(p, num_chunks);
  if (chunk.batch >= p.batch_size) return;
  const Decays<H, L, kConstant> decays(p, chunk.channel);
  const H* __restrict__ x = static_cast<const H*>(p.x);
  H* __restrict__ h = static_cast<H*>(p.h);
  H* __restrict__ d_log_decay = static_cast<H*>(p.d_log_decay);
  H carried = static_cast<const H*>(p.states)[chunk.index];
  H sum = Zero(H{});
#pragma unroll 8
  for (int i = 0; i < chunk.count; ++i) {
    const std::int64_t element = chunk.Element(p, i);
    H value;
    carried = Step(p.is_backward, decays.At(element), carried, x[element], &value);
    h[element] = value;
    if (d_log_decay == nullptr) continue;
    const H gradient = Multiply(Conj(Before<H>(p, chunk, element)), carried);
    if (kConstant) {
      sum = Add(sum, gradient);
    } else {
      d_log_decay[element] = gradient;
    }
  }
  if (kConstant && d_log_decay != nullptr) d_log_decay[chunk.index] = sum;
}

template <typename H, typename L, bool kConstant>
int Run(const RecurrenceProblem& p, CUstream_st* stream) {
  const std::int64_t num_chunks = p.num_chunks();
  const auto blocks = [](std::int64_t threads) { return (threads + kThreads - 1) / kThreads; };
  const std::int64_t states = p.batch_size * p.num_channels;
  cudaError_t status = device::Launch(SumChunks<H, L, kConstant>, blocks(states * num_chunks),
                                      kThreads, 0, stream, p, num_chunks);
  if (status == cudaSuccess) {
    status = device::Launch(JoinChunks<H>, blocks(states), kThreads, 0, stream, p, num_chunks);
  }
  if (status == cudaSuccess) {
    status = device::Launch(ScanChunks<H, L, kConstant>, blocks(states * num_chunks), kThreads, 0,
                            stream, p, num_chunks);
  }
  return status;
}

}  // namespace

int RunRecurrence(const RecurrenceProblem& p, CUstream_st* stream) {
  switch (p.decay_kind) {
    case DecayKind::kConstant:
      return p.is_complex ? Run<float2, double2, true>(p, stream)
                          : Run<float, double, true>(p, stream);
    case DecayKind::kFloat:
      return p.is_complex ? Run<float2, float2, false>(p, stream)
                          : Run<float, float, false>(p, stream);
    case DecayKind::kDouble:
      return p.is_complex ? Run<float2, double2, false>(p, stream)
                          : Run<float, double, false>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mixerbench::kernels::linear_recurrence
