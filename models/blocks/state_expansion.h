// Sparse state expansion around a core with a matrix state: P partitions, of which each token
// writes some and reads some, beside one that all tokens share. What is left to a mixer is the
// activation and the gates of a branch, and its core.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "kernels/linear_attention/recurrence.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"
#include "models/blocks/output_block.h"
#include "models/blocks/routed_core.h"
#include "models/blocks/short_convolution.h"
#include "models/mixer.h"

namespace mixerbench::models {

// What the score of a partition multiplies when a token is written to it.
enum class RouterWrite {
  kValue,  // v: how much is written
  kBeta,   // beta: how much is erased and written
  kNone,   // nothing
};

struct StateExpansionLayout {
  std::int64_t num_heads = 1;  // of values and states
  std::int64_t qk_heads = 1;   // of queries and keys, which are repeated; divides num_heads
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;
  std::int64_t conv_size = 0;  // of q and k of the shared partition; 0: no convolution
  std::int64_t num_partitions = 1;
  std::int64_t num_writers = 1;   // partitions of a token's largest scores, which it writes
  std::int64_t num_readers = 1;   // those that it reads, by the same scores
  std::int64_t lora_rank = 1;     // of what q and k of the others have beside the shared ones
  std::int64_t gate_columns = 0;  // of the projection, for the gates of one branch
  bool has_shared = true;
  RouterWrite write = RouterWrite::kValue;
  bool gates_reads = true;  // the score of a partition multiplies what is read of it
  RoutedForm form = RoutedForm::kVarlen;
  OutputLayout output = {};

  std::int64_t key_dim() const { return qk_heads * head_k_dim; }
  std::int64_t value_dim() const { return num_heads * head_v_dim; }
};

// The shared partition or the others. Fills in the gates of `args` from `columns`
// [B,T,gate_columns] and replaces args.q and k [B,T,qk_heads,K], which are projected and no more.
using BranchFunction = std::function<void(const at::Tensor& columns, const MixerOptions& options,
                                          kernels::RecurrenceArgs& args)>;

class StateExpansion final : public Mixer {
 public:
  // Parameters `in_proj` (rows: q, k, v, gates of the partitions, router, down-projections of q and
  // k, gates of the shared partition, the output gate), `lora_q`, `lora_k`, `conv` and those of
  // OutputBlock. `shared` is called with has_shared alone.
  StateExpansion(const StateExpansionLayout& layout, BranchFunction partitions,
                 BranchFunction shared, kernels::RecurrenceFunction core,
                 const MixerContext& context, const ParameterScope& scope);

  MixerTraits traits() const override;
  State InitialState(std::int64_t batch_size) const override;
  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override;
  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override;

 private:
  struct Columns;  // what is projected
  Columns Project(const MixerInputs& inputs, const MixerOptions& options, Mixed& mixed) const;
  at::Tensor Heads(const at::Tensor& x) const;  // of queries or keys
  // What the core takes of a branch.
  kernels::RecurrenceArgs Branch(const BranchFunction& function, const at::Tensor& gates,
                                 const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const MixerOptions& options) const;

  StateExpansionLayout layout_;
  BranchFunction partitions_;
  BranchFunction shared_;
  RoutedCore routed_;
  Linear in_proj_;
  Linear lora_q_;
  Linear lora_k_;
  std::optional<ShortConvolution> conv_;
  OutputBlock output_;
};

// The options that these mixers have in common, of any Config with such members.
template <typename Config>
Fields<Config> StateExpansionFields() {
  return Fields<Config>()
      .Add("num_heads", &Config::num_heads, "heads of queries and keys")
      .Add("expand_k", &Config::expand_k, "key channels per channel of d_model")
      .Add("num_partitions", &Config::num_partitions,
           "partitions of the state among which the router chooses")
      .Add("top_k", &Config::top_k, "partitions that a token writes")
      .Add("num_readers", &Config::num_readers, "partitions that a token reads; 0: top_k")
      .Add("use_shared", &Config::use_shared, "one more partition, which all tokens write and read")
      .Add("lora_rank", &Config::lora_rank,
           "rank of what queries and keys of the partitions have beside those of the shared one; "
           "0: value channels of a head")
      .Add("conv_size", &Config::conv_size,
           "width of a convolution on queries and keys of the shared partition; 0: none")
      .Add("write_gate", &Config::write_gate,
           "what the router's score multiplies when a token is written")
      .Add("read_gate", &Config::read_gate, "the router's score multiplies what is read")
      .Add("implementation", &Config::implementation, "how the fast path computes the partitions")
      .Add("output_gate", &Config::output_gate, "after the norm of each head's output, of low rank")
      .Add("norm_eps", &Config::norm_eps, "eps of that norm");
}

// The layout but for the value heads and gate columns, which set head_v_dim. Throws ConfigError
// below `where`.
template <typename Config>
StateExpansionLayout StateExpansionLayoutOf(const Config& config, std::int64_t d_model,
                                            std::int64_t head_v_dim, const std::string& where) {
  CheckRange(config.num_heads, 1, d_model, where, "num_heads");
  CheckRange(config.num_partitions, 1, 1024, where, "num_partitions");
  CheckRange(config.top_k, 1, config.num_partitions, where, "top_k");
  CheckRange(config.num_readers, 0, config.num_partitions, where, "num_readers");
  CheckRange(config.lora_rank, 0, 4096, where, "lora_rank");
  CheckRange(config.conv_size, 0, config.use_shared ? 64 : 0, where, "conv_size");
  CheckEps(config.norm_eps, where, "norm_eps");
  StateExpansionLayout layout;
  layout.num_heads = layout.qk_heads = config.num_heads;
  layout.head_k_dim =
      ExpandedHeadDim(config.expand_k, d_model, config.num_heads, where, "expand_k");
  layout.head_v_dim = head_v_dim;
  layout.conv_size = config.conv_size;
  layout.num_partitions = config.num_partitions;
  layout.num_writers = config.top_k;
  layout.num_readers = config.num_readers != 0 ? config.num_readers : config.top_k;
  layout.lora_rank = config.lora_rank != 0 ? config.lora_rank : head_v_dim;
  layout.has_shared = config.use_shared;
  layout.write = config.write_gate;
  layout.gates_reads = config.read_gate;
  layout.form = config.implementation;
  layout.output.gate = config.output_gate;
  layout.output.gate_rank = head_v_dim;
  layout.output.eps = config.norm_eps;
  return layout;
}

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::RouterWrite> {
  using E = mixerbench::models::RouterWrite;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kValue, "value"}, {E::kBeta, "beta"}, {E::kNone, "none"}};
};
