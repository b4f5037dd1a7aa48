// What is derived from recorded states and decays: how alike the rows of a state are, how many
// directions it uses, and how far back a decay lets a token look.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace mixerbench::harness {

// state [B,H,K,V], rows are keys or slots -> [B,H]: the mean of the cosine of rows i and j, or of
// its size, over all i != j. Rows shorter than 1e-12 are left out; NaN where fewer than two are
// left.
at::Tensor RowCosine(const at::Tensor& state);
at::Tensor AbsoluteRowCosine(const at::Tensor& state);

// state [B,H,K,V] -> [B,H]: the entropy -sum p ln p / ln n of p = sigma^2 / sum sigma^2 for the
// n = min(K,V) singular values sigma: 0 for a state of rank 1, 1 where all are equal; n to this
// power is the effective rank. NaN for n = 1 and for a state of zeros.
at::Tensor SingularEntropy(const at::Tensor& state);

// log_decay [B,T,...] <= 0 of a channel each -> [B,min(T,128),...]: for each of the last tokens t
// the largest t - s with sum_{s < j <= t} log_decay_j >= ln 0.001: how many tokens back at least a
// thousandth of what was written is left. At most t.
at::Tensor ReceptiveField(const at::Tensor& log_decay);

// A name that analyse takes among taps, and what it is of.
struct StateMetric {
  std::string_view name;  // "state_entropy"
  std::string_view tap;   // "state"
  // Undefined for a record that has no axis for it (a state without rows, a decay without time).
  at::Tensor (*compute)(const at::Tensor& record);
};

std::span<const StateMetric> StateMetrics();

}  // namespace mixerbench::harness
