// The one computation inside linear attention with decay, forward and backward: a scan over time
// that reads a decaying state and writes to it. Derivation in decay_scan.md.
//
//   out_i = s * sum over j of decay(i, j) <x_i, y_j> z_j      j <= i, or j >= i in reverse
//
// x, y [B,T,H,N] are queries and keys of the scan, z, out [B,T,H,M] its values and results; which
// tensors of a core they are depends on what is computed (forward, dq, dk or dv).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/sequence.h"

namespace mixerbench::kernels::decay_scan {

using namespace device;

// Which axis of the state [M,N] has decays of its own.
enum class DecayAxis {
  kNone,   // one decay a token, or none at all
  kKey,    // one for each of the N channels of x and y
  kValue,  // one for each of the M channels of z and out
};

// How a scan is laid out on the device.
struct ScanPlan {
  int value_tile = 0;     // channels of `out` of one CTA: 16, 32, 48 or 64
  int num_producers = 0;  // warps that load and prepare 16 tokens each, 1 to 4
  int num_slots = 0;      // of 16 tokens in shared memory
  int lookahead = 0;      // blocks of 16 tokens whose copies a producer has under way, 1 to 3
  // The sequence is cut in this many segments. 1: the fused plan, one CTA scans the
  // whole sequence with the state on chip. More: segments first sum up their writes, a scan turns
  // the sums into the states that enter the segments, then all are scanned at the same time.
  int num_segments = 0;
  int tokens_per_segment = 0;  // a multiple of kScanChunk
  // Steps of 64 tokens, by the products of warpgroups; slots hold as many tokens. At most
  // max_blocks CTAs share the work, each with producers of its own.
  bool uses_wgmma = false;
  int max_blocks = 0;
};

// Segments end where chunks do.
constexpr int kScanChunk = 64;

// States are saved, and gradients of decays formed, every so many tokens. Where the gradients of
// decays of channels are sums over a chunk of what was rounded, chunks are shorter (decay_scan.md).
constexpr int SavedChunk(DecayAxis gradient_axis) {
  return gradient_axis == DecayAxis::kValue ? kScanChunk / 2 : kScanChunk;
}

struct ScanProblem {
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
  // s, on the side that is not summed up in the state of the core: see decay_scan.md.
  float x_scale = 1;
  float y_scale = 1;

  // [B,H,M,N] with these strides in elements, B and H merged; fp32, dense. null: zeros, not wanted.
  const float* initial_state = nullptr;
  float* final_state = nullptr;
  std::int64_t state_value_stride = 0;
  std::int64_t state_key_stride = 0;

  // For the gradient of decays (decay_scan.md). One or none of the two: where to leave the state
  // after every chunk, in reverse the one before it is scanned, and what the scan to dq has left
  // there. SavedStateElements elements of the operands' type, in an order that only a scan with the
  // same shapes and value tile, and the kernel that takes DecayGradientProblem::states, know.
  void* states_to_save = nullptr;
  const void* states_to_compare = nullptr;
  // With states_to_compare, in scans by chunks: the state before the first chunk, as initial_state
  // of the scan to dq; null: zeros.
  const float* first_state = nullptr;
  // With states_to_compare, [number of chunks, B H, M], fp32, summed over N: the product of the
  // saved state and this scan's at the same place; in scans by chunks what all tokens before the
  // chunk and in it share with those after it.
  float* state_products = nullptr;
  // Of scans by chunks: the product of `out`, before it is rounded, and this one, [B,T,H,M], summed
  // over channels by each consumer: TokenProductElements, fp32, [T / 16, B H, NumProductSums, 16],
  // T rounded up. Data null: not wanted.
  Sequence factor = {};
  float* token_products = nullptr;

  float* segment_states = nullptr;  // SegmentStateElements, scratch; null for a single segment
  float* segment_decays = nullptr;  // SegmentDecayElements, scratch; null for a single segment
};

// Whether the plan goes by chunks. Only such a scan has token_products and takes first_state; other
// scans with one decay a token save states and compare none.
bool SupportsWgmma(const ScanProblem& problem, DecayAxis axis, const DeviceLimits& limits);

// Enough CTAs to fill the device when the sequences are long enough, slots that fit
// its shared memory. Uses the sizes of `problem` and whether it has a factor.
ScanPlan PlanScan(const ScanProblem& problem, DecayAxis axis, const DeviceLimits& limits);

std::int64_t SavedStateElements(const ScanProblem& problem, DecayAxis axis);
int NumProductSums(std::int64_t value_dim);  // warps that share the channels of a token
std::int64_t TokenProductElements(const ScanProblem& problem);
std::int64_t SegmentStateElements(const ScanProblem& problem, const ScanPlan& plan);
std::int64_t SegmentDecayElements(const ScanProblem& problem, const ScanPlan& plan);

// Starts the scan on `stream` of the current device and returns the CUDA error code of the launch.
using ScanFunction = int (*)(const ScanProblem& problem, const ScanPlan& plan, CUstream_st* stream);

// The gradient of log decays, chunk by chunk (decay_scan.md), from what the scans to dq and dk
// leave behind: with one decay a token that is token_products and state_products of scans by
// chunks, or saved states; with one a key channel it is dq and dk, as they were rounded, and
// state_products. With one a value channel: the same of o and dv, d_o standing for q, v for k and
// value_dim for key_dim.
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
  const float* q_products = nullptr;  // null: the scans were not by chunks
  const float* k_products = nullptr;
  const float* state_products = nullptr;  // [number of chunks, B H, key_dim]

  const void* states = nullptr;    // after every chunk
  const void* d_states = nullptr;  // the same of their gradients, without the scale

  float* d_log_decay = nullptr;  // [B,T,H,key_dim] or [B,T,H]; dense
};

using DecayGradientFunction = int (*)(const DecayGradientProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::decay_scan
