// The one computation inside linear attention with decay, forward and backward: a walk over time
// that reads a decaying state and writes to it. Derivation in decay_walk.md.
//
//   out_i = s * sum over j of decay(i, j) <x_i, y_j> z_j      j <= i, or j >= i in reverse
//
// x, y [B,T,H,N] are queries and keys of the walk, z, out [B,T,H,M] its values and results; which
// tensors of a core they are depends on what is computed (forward, dq, dk or dv).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/sequence.h"

namespace mixerbench::kernels::cuda {

// Which axis of the state [M,N] has decays of its own.
enum class DecayAxis {
  kNone,   // one decay a token, or none at all
  kKey,    // one for each of the N channels of x and y
  kValue,  // one for each of the M channels of z and out
};

// How a walk is laid out on the device.
struct WalkPlan {
  int value_tile = 0;     // channels of `out` of one block of threads: 16, 32, 48 or 64
  int num_preparers = 0;  // warps that load and prepare 16 tokens each, 1 to 4
  int num_slots = 0;      // of 16 tokens in shared memory
  int lookahead = 0;      // blocks of 16 tokens whose copies a preparer has under way, 1 to 3
  // The sequence is cut in this many segments. 1: the fused plan, one block of threads walks the
  // whole sequence with the state on chip. More: segments first sum up their writes, a scan turns
  // the sums into the states that enter the segments, then all are walked at the same time.
  int num_segments = 0;
  int tokens_per_segment = 0;  // a multiple of kWalkChunk
  // Steps of 64 tokens, by the products of warpgroups; slots hold as many tokens. At most
  // max_blocks blocks of threads share the work, each with preparers of its own.
  bool by_chunks = false;
  int max_blocks = 0;
};

// Segments end where chunks do.
constexpr int kWalkChunk = 64;

// States are saved, and gradients of decays formed, every so many tokens. Where the gradients of
// decays of channels are sums over a chunk of what was rounded, chunks are shorter (decay_walk.md).
constexpr int SavedChunk(DecayAxis gradient_axis) {
  return gradient_axis == DecayAxis::kValue ? kWalkChunk / 2 : kWalkChunk;
}

struct WalkProblem {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_heads = 0;
  std::int64_t key_dim = 0;    // N: at most 128, a multiple of 16 bytes
  std::int64_t value_dim = 0;  // M: a multiple of 16 bytes
  OperandPrecision precision = OperandPrecision::kBf16;
  Sequence x = {};
  Sequence y = {};
  Sequence z = {};
  Sequence out = {};
  // fp32, [B,T,H], [B,T,H,N] or [B,T,H,M] by the axis; kNone without decay: data is null.
  Sequence log_decay = {};
  bool reverse = false;
  // s, on the side that is not summed up in the state of the core: see decay_walk.md.
  float x_scale = 1;
  float y_scale = 1;

  // [B,H,M,N] with these strides in elements, B and H merged; fp32, dense. null: zeros, not wanted.
  const float* initial_state = nullptr;
  float* final_state = nullptr;
  std::int64_t state_value_stride = 0;
  std::int64_t state_key_stride = 0;

  // For the gradient of decays (decay_walk.md). One or none of the two: where to leave the state
  // after every chunk, in reverse the one before it is walked, and what the walk to dq has left
  // there. SavedStateElements elements of the operands' type, in an order that only a walk with the
  // same shapes and value tile, and the kernel that takes DecayGradientProblem::states, know.
  void* states_to_save = nullptr;
  const void* states_to_compare = nullptr;
  // With states_to_compare, in walks by chunks: the state before the first chunk, as initial_state
  // of the walk to dq; null: zeros.
  const float* first_state = nullptr;
  // With states_to_compare, [number of chunks, B H, M], fp32, summed over N: the product of the
  // saved state and this walk's at the same place; in walks by chunks what all tokens before the
  // chunk and in it share with those after it.
  float* state_products = nullptr;
  // Of walks by chunks: the product of `out`, before it is rounded, and this one, [B,T,H,M], summed
  // over channels by each walker: TokenProductElements, fp32, [T / 16, B H, NumProductSums, 16], T
  // rounded up. Data null: not wanted.
  Sequence factor = {};
  float* token_products = nullptr;

  float* segment_states = nullptr;  // SegmentStateElements, scratch; null for a single segment
  float* segment_decays = nullptr;  // SegmentDecayElements, scratch; null for a single segment
};

// Whether the plan goes by chunks. Only such a walk has token_products and takes first_state; other
// walks with one decay a token save states and compare none.
bool WalksByChunks(const WalkProblem& problem, DecayAxis axis, const DeviceLimits& limits);

// Enough blocks of threads to fill the device when the sequences are long enough, slots that fit
// its shared memory. Uses the sizes of `problem` and whether it has a factor.
WalkPlan PlanWalk(const WalkProblem& problem, DecayAxis axis, const DeviceLimits& limits);

std::int64_t SavedStateElements(const WalkProblem& problem, DecayAxis axis);
int NumProductSums(std::int64_t value_dim);  // warps that share the channels of a token
std::int64_t TokenProductElements(const WalkProblem& problem);
std::int64_t SegmentStateElements(const WalkProblem& problem, const WalkPlan& plan);
std::int64_t SegmentDecayElements(const WalkProblem& problem, const WalkPlan& plan);

// Starts the walk on `stream` of the current device and returns the CUDA error code of the launch.
using WalkFunction = int (*)(const WalkProblem& problem, const WalkPlan& plan, CUstream_st* stream);

// The gradient of log decays, chunk by chunk (decay_walk.md), from what the walks to dq and dk
// leave behind: with one decay a token that is token_products and state_products of walks by
// chunks, or saved states; with one a key channel it is dq and dk, as they were rounded, and
// state_products.
struct DecayGradientProblem {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  OperandPrecision precision = OperandPrecision::kBf16;
  float scale = 1;
  Sequence q, k, v, d_o, d_q, d_k, log_decay;
  const float* initial_state = nullptr;  // [B,H,K,V] dense; null: zeros

  int num_product_sums = 0;
  const float* q_products = nullptr;  // null: the walks were not by chunks
  const float* k_products = nullptr;
  const float* state_products = nullptr;  // [number of chunks, B H, key_dim]

  const void* states = nullptr;    // after every chunk
  const void* d_states = nullptr;  // the same of their gradients, without the scale

  float* d_log_decay = nullptr;  // [B,T,H,key_dim] or [B,T,H]; dense
};

using DecayGradientFunction = int (*)(const DecayGradientProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::cuda
