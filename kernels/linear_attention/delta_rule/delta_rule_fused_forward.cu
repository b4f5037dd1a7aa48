// The delta rule forward in one kernel, for many sequences: factors and scan. Maths: delta_rule.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/delta_rule/delta_rule_fused_forward.cuh"

namespace mixerbench::kernels::delta_rule {
namespace {

// Block: all of V of one or two (b, h) at a time, blocks take sequences in turn. State and sums
// fp32 in registers. Deterministic.
template <int kValueTiles, bool kHasDecay>
__global__ void __launch_bounds__(fused_forward::kThreads, 1)
    FusedForwardKernel(const __grid_constant__ fused_forward::Args args) {
  using namespace fused_forward;
  extern __shared__ __align__(1024) char shared_bytes[];
  const Block<kValueTiles, kHasDecay> block(args,
                                            *reinterpret_cast<Shared<kValueTiles>*>(shared_bytes));
  block.Begin();
  // The same in all lanes, and known to be.
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / warpgroup::kThreads, 0);
  const int warp = __shfl_sync(~0u, warpgroup::WarpOfGroup(), 0);
  if (group == 0) {
    warpgroup::TakeRegisters<kFactorRegisters>();
    block.FormFactors(warp);
  } else if (group <= kScanGroups) {
    warpgroup::TakeRegisters<kScanRegisters>();
    block.Scan(group - 1, warp);
  } else {
    warpgroup::GiveRegisters<kProducerRegisters>();
    if (warp == 0) {
      block.Produce();
    } else {
      block.StoreFactors(warp - 1);
    }
  }
}

}  // namespace

int DeltaRuleFusedForward(const DeltaRuleSizes& sizes, const DeltaRulePlan& plan, const Sequence& q,
                          const Sequence& k, const Sequence& v, const float* log_decay,
                          const float* beta, const DeltaRuleFactorData& factors,
                          const float* initial_state, const Sequence& o, float* final_state,
                          const DeltaRuleSaved& saved, CUstream_st* stream) {
  using namespace fused_forward;
  Args args = {.sizes = sizes,
               .maps = {},
               .log_decay = log_decay,
               .beta = beta,
               .factors = factors,
               .initial_state = initial_state,
               .final_state = final_state,
               .states = saved.states};
  Maps& maps = args.maps;
  cudaError_t status = MapTokens(q, sizes, sizes.head_k_dim, &maps.q);
  if (status == cudaSuccess) status = MapTokens(k, sizes, sizes.head_k_dim, &maps.k);
  if (status == cudaSuccess) status = MapTokens(v, sizes, sizes.head_v_dim, &maps.v);
  if (status == cudaSuccess) status = MapTokens(o, sizes, sizes.head_v_dim, &maps.o);
  if (saved.states != nullptr) {
    const Sequence y = Contiguous(saved.y, sizes, sizes.head_v_dim);
    if (status == cudaSuccess) status = MapTokens(y, sizes, sizes.head_v_dim, &maps.y);
    // [B,H,N,V,K] as one sequence of rows.
    const DeltaRuleSizes rows = {
        .batch_size = 1,
        .seq_len = sizes.batch_size * sizes.num_heads * NumChunks(sizes) * sizes.head_v_dim,
        .num_heads = 1};
    const Sequence states = Contiguous(saved.states, rows, sizes.head_k_dim);
    if (status == cudaSuccess) status = MapTokens(states, rows, sizes.head_k_dim, &maps.states);
  }
  if (status != cudaSuccess) return status;
  const auto launch = [&]<int kValueTiles, bool kHasDecay>() {
    static_assert(sizeof(Shared<kValueTiles>) <= kFusedBytes);
    const std::int64_t num_blocks = min(sizes.batch_size * sizes.num_heads,
                                        static_cast<std::int64_t>(plan.fused_multiprocessors));
    return device::Launch(FusedForwardKernel<kValueTiles, kHasDecay>, num_blocks, kThreads,
                          sizeof(Shared<kValueTiles>), stream, args);
  };
  if (sizes.head_v_dim == 64) {
    return log_decay == nullptr ? launch.template operator()<1, false>()
                                : launch.template operator()<1, true>();
  }
  return log_decay == nullptr ? launch.template operator()<2, false>()
                              : launch.template operator()<2, true>();
}

}  // namespace mixerbench::kernels::delta_rule
