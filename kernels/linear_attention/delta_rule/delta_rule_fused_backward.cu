// The delta rule backward in one kernel, for many sequences: the scan over the gradients of states
// and the gradients of the inputs of each chunk it passes. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/delta_rule/delta_rule_fused_backward_keys.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_fused_backward_queries.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_fused_backward_scan.cuh"

namespace mixerbench::kernels::delta_rule {
namespace {

// Block: all of V of one (b, h) at a time, blocks take sequences in turn. Three warpgroups of
// different roles; a warp owns 16 tokens, or 16 of every 64 columns of V in the scan. Gradient of
// the state and sums fp32 in registers. Deterministic.
template <int kValueTiles, bool kHasDecay>
__global__ void __launch_bounds__(
    FusedBackward<kValueTiles, kHasDecay>::kGroups* warpgroup::kThreads, 1)
    FusedBackwardKernel(const __grid_constant__ FusedBackwardArgs args) {
  using Roles = FusedBackward<kValueTiles, kHasDecay>;
  extern __shared__ __align__(1024) char shared_bytes[];
  Roles roles(args, *reinterpret_cast<typename Roles::Shared*>(shared_bytes));
  if (threadIdx.x == 0) roles.InitBarriers();
  __syncthreads();
  // The same in all lanes, as the compiler sees.
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / warpgroup::kThreads, 0);
  if (group == 0) {
    warpgroup::GiveRegisters<Roles::kQueryRegisters>();
    roles.Queries();
  } else if (group == 1) {
    warpgroup::GiveRegisters<Roles::kKeyRegisters>();
    roles.Keys();
  } else {
    warpgroup::TakeRegisters<Roles::kScanRegisters>();
    roles.Scan();
  }
}

}  // namespace

int DeltaRuleFusedBackward(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan,
                           const Sequence& q, const Sequence& k, const Sequence& v,
                           const Sequence& d_o, const DeltaRuleFactorData& factors,
                           const DeltaRuleSaved& saved, const float* d_final_state,
                           float* d_initial_state, const DeltaRuleGradientData& gradients,
                           CUstream_st* stream) {
  FusedBackwardArgs args = {.sizes = sizes,
                            .v = v,
                            .factors = factors,
                            .d_final_state = d_final_state,
                            .d_initial_state = d_initial_state,
                            .gradients = gradients};
  const Sequence saved_y = Contiguous(saved.y, sizes, sizes.head_v_dim);
  const DeltaRuleSizes states = {
      .batch_size = 1,
      .seq_len = sizes.batch_size * sizes.num_heads * NumChunks(sizes) * sizes.head_v_dim,
      .num_heads = 1};
  const Sequence saved_states = Contiguous(saved.states, states, sizes.head_k_dim);
  cudaError_t status = cudaSuccess;
  const auto map = [&](const Sequence& x, const DeltaRuleSizes& x_sizes, std::int64_t head_dim,
                       CUtensorMap& tiles) {
    if (status == cudaSuccess) status = MapTokens(x, x_sizes, head_dim, &tiles);
  };
  map(q, sizes, sizes.head_k_dim, args.q_tiles);
  map(k, sizes, sizes.head_k_dim, args.k_tiles);
  map(d_o, sizes, sizes.head_v_dim, args.d_o_tiles);
  map(gradients.q, sizes, sizes.head_k_dim, args.dq_tiles);
  map(gradients.k, sizes, sizes.head_k_dim, args.dk_tiles);
  map(saved_y, sizes, sizes.head_v_dim, args.y_tiles);
  map(saved_states, states, sizes.head_k_dim, args.state_tiles);
  if (status != cudaSuccess) return status;
  const std::int64_t num_blocks = min(sizes.batch_size * sizes.num_heads,
                                      static_cast<std::int64_t>(plan.fused_multiprocessors));
  const auto launch = [&]<int kValueTiles, bool kHasDecay>() {
    using Roles = FusedBackward<kValueTiles, kHasDecay>;
    static_assert(sizeof(typename Roles::Shared) <= kFusedBytes);
    return device::Launch(FusedBackwardKernel<kValueTiles, kHasDecay>, num_blocks,
                          Roles::kGroups * warpgroup::kThreads, sizeof(typename Roles::Shared),
                          stream, args);
  };
  const auto launch_tiles = [&]<int kValueTiles>() {
    return factors.has_decay ? launch.template operator()<kValueTiles, true>()
                             : launch.template operator()<kValueTiles, false>();
  };
  return sizes.head_v_dim == 64 ? launch_tiles.template operator()<1>()
                                : launch_tiles.template operator()<2>();
}

}  // namespace mixerbench::kernels::delta_rule
