// The mixer around a core with a matrix state: one projection, short convolution, activation and
// norm of queries and keys, taps, states, output block. What is left to a mixer is its gates and
// its core.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "kernels/linear_attention/recurrence.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"
#include "models/blocks/output_block.h"
#include "models/blocks/short_convolution.h"
#include "models/mixer.h"

namespace mixerbench::models {

// What the tap write_gate shows and its override acts on.
enum class WriteGate {
  kKeyNorm,  // |k| |v|; k
  kBeta,     // beta
  kOwn,      // the gate function or the core records it
};

// Sizes in channels, already checked.
struct MatrixLayout {
  std::int64_t num_heads = 1;  // of values and states
  std::int64_t qk_heads = 1;   // of queries and keys, which are repeated; divides num_heads
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;
  // Heads of queries to one of keys, values, gates and states (grouped queries), for cores that
  // take args.q [B,T,queries_per_key H,K]; more than one: qk_heads are num_heads.
  std::int64_t queries_per_key = 1;
  // Keys and values of a token, the heads of one write after those of the other: args.k
  // [B,T,writes qk_heads,K], args.v [B,T,writes H,V].
  std::int64_t writes_per_token = 1;
  std::int64_t conv_size = 0;  // of q, k, v; 0: no convolution
  bool conv_bias = false;
  bool silu = false;     // of q, k, v, after the convolution
  bool l2_norm = false;  // of q and k after that
  bool rotary = false;   // q and k are turned by their position in the call
  // Widths of what the gate function gets: columns of the one projection, after q, k, v.
  std::vector<std::int64_t> gate_columns = {};
  WriteGate write_gate = WriteGate::kKeyNorm;
  LinearInit init = LinearInit::kBackbone;  // of each projection; that of `output` is set there
  OutputLayout output = {};

  std::int64_t key_dim() const { return qk_heads * head_k_dim; }
  std::int64_t value_dim() const { return num_heads * head_v_dim; }
  std::int64_t query_dim() const { return queries_per_key * key_dim(); }
  std::int64_t qkv_dim() const {
    return query_dim() + writes_per_token * (key_dim() + value_dim());
  }
  std::int64_t output_heads() const { return queries_per_key * num_heads; }
};

// Columns of the projection that the output gate takes.
inline std::int64_t OutputGateColumns(const MatrixLayout& layout) {
  return layout.output.gate_columns(layout.output_heads() * layout.head_v_dim);
}

// What is projected from x.
struct MatrixColumns {
  at::Tensor q;                        // [B,T,queries_per_key qk_heads,K]
  at::Tensor k;                        // [B,T,qk_heads,K]
  at::Tensor v;                        // [B,T,H,V]
  std::vector<at::Tensor> gates = {};  // [B,T,.] each
  TokenTensor output_gate = {};        // of OutputLayout::gate_columns
};

// In place of the projection and convolution of MatrixLayout, for mixers with others (token shift,
// a convolution of x). Leaves its states in `mixed` if they are wanted.
struct MatrixProjection {
  std::function<MatrixColumns(const MixerInputs& inputs, const MixerOptions& options, Mixed& mixed)>
      run;
  std::function<void(std::int64_t batch_size, State& state)> add_initial_state;
  MixerTraits traits = {};
};

// Of an object that has `run` as its operator(), AddInitialState and, where there are any,
// traits().
template <class Projection>
MatrixProjection ProjectionOf(const std::shared_ptr<const Projection>& projection) {
  MatrixProjection result{
      .run = [projection](const MixerInputs& inputs, const MixerOptions& options,
                          Mixed& mixed) { return (*projection)(inputs, options, mixed); },
      .add_initial_state = [projection](
                               std::int64_t batch_size,
                               State& state) { projection->AddInitialState(batch_size, state); }};
  if constexpr (requires { projection->traits(); }) result.traits = projection->traits();
  return result;
}

// Fills in what the core takes besides args.q, k [B,T,H,K] and v [B,T,H,V], and may replace these.
// gates: [B,T,.] each, as MatrixLayout::gate_columns has them.
using GateFunction =
    std::function<void(const std::vector<at::Tensor>& gates, const MixerOptions& options,
                       kernels::RecurrenceArgs& args)>;

struct MatrixCore {
  // -> o [B,T,H,V]; takes its states from `options`, leaves its final states in `mixed` if wanted.
  std::function<at::Tensor(kernels::RecurrenceArgs args, const MixerOptions& options, Mixed& mixed)>
      run;
  // Names and shapes, without the batch, of its states; zeros before the first token.
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> states;
  // The last axis of args.log_decay are slots of the state, not channels of k; writes to a slot are
  // 1 - e^log_decay.
  bool has_slots = false;
};

// Changes what the core gets (row_sparse).
using CoreFilter = std::function<void(kernels::RecurrenceArgs& args, bool has_slots,
                                      const MixerOptions& options, Mixed& mixed)>;

// A core of one state, "state" [H,K,V].
MatrixCore OneState(kernels::RecurrenceFunction core, const MatrixLayout& layout);

class MatrixStateMixer final : public Mixer {
 public:
  // Parameters `in_proj` (rows: q, k, v, gate columns, the output gate) and `conv`, unless there is
  // a `projection`, and those of OutputBlock.
  // The core may append one entry to mixed.tokens, [B,T,H V]: what is added after the norm.
  MatrixStateMixer(const MatrixLayout& layout, GateFunction gates, MatrixCore core,
                   const MixerContext& context, const ParameterScope& scope,
                   MatrixProjection projection = {});

  // `traits`: what the filter adds to those of the mixer.
  void SetFilter(CoreFilter filter, const MixerTraits& traits);

  MixerTraits traits() const override;
  State InitialState(std::int64_t batch_size) const override;
  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override;
  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override;

 private:
  bool HasProjection() const { return static_cast<bool>(projection_.run); }
  MatrixColumns Project(const MixerInputs& inputs, const MixerOptions& options, Mixed& mixed) const;
  // Splits q, k and v, which are side by side, into heads; turns q and k by their position.
  void SplitHeads(const at::Tensor& qkv, ExecutionPath path, MatrixColumns& columns) const;
  std::int64_t gate_columns() const { return OutputGateColumns(layout_); }

  MatrixLayout layout_;
  MatrixProjection projection_;  // `run` is empty for those of the layout
  GateFunction gates_;
  MatrixCore core_;
  CoreFilter filter_;  // may be empty
  MixerTraits traits_;
  at::TensorOptions state_options_;
  std::optional<Linear> in_proj_;
  std::optional<ShortConvolution> conv_;
  OutputBlock output_;
};

// Texts of conv_size: silu comes with the convolution, as LayoutOf has it, or stays without one.
inline constexpr char kConvWithSilu[] = "width of a convolution with silu on q, k, v; 0: neither";
inline constexpr char kConvBeforeSilu[] =
    "width of a convolution with silu on q, k, v; 0: silu alone";

// The options that matrix-state mixers have in common, of those that Config has.
template <typename Config>
Fields<Config> MatrixFields(std::string conv_size_help = kConvWithSilu) {
  Fields<Config> fields;
  fields.Add("num_heads", &Config::num_heads, "heads");
  if constexpr (requires(Config c) { c.expand_k; }) {
    fields.Add("expand_k", &Config::expand_k, "key channels per channel of d_model");
  }
  if constexpr (requires(Config c) { c.conv_size; }) {
    fields.Add("conv_size", &Config::conv_size, std::move(conv_size_help));
  }
  if constexpr (requires(Config c) { c.output_gate; }) {
    fields.Add("output_gate", &Config::output_gate, "after the norm of each head's output");
  }
  if constexpr (requires(Config c) { c.use_output_gate; }) {
    fields.Add("use_output_gate", &Config::use_output_gate,
               "silu gate after the norm of each head's output");
  }
  fields.Add("norm_eps", &Config::norm_eps, "eps of that norm");
  return fields;
}

// The part of the layout that these options decide, all but head_v_dim. Throws ConfigError below
// `where`.
template <typename Config>
MatrixLayout KeyLayoutOf(const Config& config, std::int64_t d_model, const std::string& where) {
  CheckRange(config.num_heads, 1, d_model, where, "num_heads");
  CheckEps(config.norm_eps, where, "norm_eps");
  MatrixLayout layout{.num_heads = config.num_heads, .qk_heads = config.num_heads};
  layout.output.eps = config.norm_eps;
  if constexpr (requires { config.expand_k; }) {
    layout.head_k_dim =
        ExpandedHeadDim(config.expand_k, d_model, config.num_heads, where, "expand_k");
  }
  if constexpr (requires { config.conv_size; }) {
    CheckRange(config.conv_size, 0, 64, where, "conv_size");
    layout.conv_size = config.conv_size;
    layout.silu = config.conv_size > 0;
  }
  if constexpr (requires { config.output_gate; }) layout.output.gate = config.output_gate;
  if constexpr (requires { config.use_output_gate; }) {
    layout.output.gate = config.use_output_gate ? OutputGate::kSilu : OutputGate::kNone;
  }
  return layout;
}

// With value channels by the option expand_v, per channel of d_model.
template <typename Config>
MatrixLayout LayoutOf(const Config& config, std::int64_t d_model, const std::string& where) {
  MatrixLayout layout = KeyLayoutOf(config, d_model, where);
  layout.head_v_dim =
      ExpandedHeadDim(config.expand_v, d_model, config.num_heads, where, "expand_v");
  return layout;
}

}  // namespace mixerbench::models
