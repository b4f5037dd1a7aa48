// What device code there is for a core, as data: dispatchers refuse by it, with a reason, and
// `list cores --json` shows it. No torch, no CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixerbench::kernels {

// Device code is compiled for compute capability 9.0, and as PTX for this one and later ones.
inline constexpr int kMinComputeCapability = 80;  // 8.0

// The `values`, and every multiple of `multiple_of` (0: none) from `min` to `max` (0: no bound).
struct SizeRange {
  std::vector<std::int64_t> values = {};
  std::int64_t multiple_of = 0;
  std::int64_t min = 1;
  std::int64_t max = 0;

  bool Contains(std::int64_t size) const;
};

// Why `size` is outside: "head_k_dim 24 is no multiple of 16"; empty when it is inside.
std::string Refusal(const SizeRange& range, std::string_view name, std::int64_t size);

// One way in which device code runs a core.
struct DevicePlan {
  std::string name = {};                 // as in plan.h
  std::vector<std::string> dtypes = {};  // of the operands of products: "bf16", "tf32", "fp32"
  SizeRange head_k_dim = {};
  SizeRange head_v_dim = {};
  SizeRange seq_len = {.multiple_of = 1};
  bool needs_sm90 = false;  // compute capability 9.0 alone
  // What it depends on besides, in words; empty: nothing. The dispatcher prefers the first plan of
  // a core that takes a problem.
  std::string when = {};
};

// Why none of the plans with this dtype takes heads of these sizes: the reason of the last one, the
// most general. Empty when one does.
std::string Refusal(const std::vector<DevicePlan>& plans, std::string_view dtype,
                    std::int64_t head_k_dim, std::int64_t head_v_dim);

}  // namespace mixerbench::kernels
