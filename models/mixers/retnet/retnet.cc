// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/retnet/retnet.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "kernels/fused/columns.h"
#include "kernels/fused/rotary.h"
#include "kernels/scalar_decay/scalar_decay.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/linear.h"
#include "models/blocks/matrix_heads.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::retnet {
namespace {

const Fields<RetNetConfig>& ConfigFields() {
  static const auto fields =
      Fields<RetNetConfig>()
          .Add("num_heads", &RetNetConfig::num_heads, "heads")
          .Add("expand_k", &RetNetConfig::expand_k, "key channels per channel of d_model")
          .Add("expand_v", &RetNetConfig::expand_v, "value channels per channel of d_model")
          .Add("first_decay_exponent", &RetNetConfig::first_decay_exponent,
               "head 0 keeps 1 - 2^-this of its state at each token")
          .Add("last_decay_exponent", &RetNetConfig::last_decay_exponent,
               "of the last head, those between spread evenly; 0: one more for each head")
          .Add("output_gate", &RetNetConfig::output_gate, "after the norm of each head's output")
          .Add("norm_eps", &RetNetConfig::norm_eps, "eps of that norm");
  return fields;
}

// log(1 - 2^-e_h), [H] in float64 on the CPU.
at::Tensor LogDecays(const RetNetConfig& config) {
  const std::int64_t num_heads = config.num_heads;
  const double first = config.first_decay_exponent;
  double step = 1;
  if (config.last_decay_exponent != 0 && num_heads > 1) {
    step = (config.last_decay_exponent - first) / static_cast<double>(num_heads - 1);
  }
  at::Tensor log_decays = at::empty({num_heads}, at::kDouble);
  auto* values = log_decays.mutable_data_ptr<double>();
  for (std::int64_t h = 0; h < num_heads; ++h) {
    values[h] = std::log1p(-std::exp2(-(first + step * static_cast<double>(h))));
  }
  return log_decays;
}

class RetNet final : public Mixer {
 public:
  RetNet(const RetNetConfig& config, const MatrixHeads& heads, std::int64_t d_model,
         const ParameterScope& scope)
      : config_(config),
        heads_(heads),
        in_proj_(scope.Child("in_proj"), d_model,
                 2 * heads_.key_dim() + (has_output_gate() ? 2 : 1) * heads_.value_dim(),
                 /*bias=*/false),
        norm_(scope.Child("o_norm"), heads.head_v_dim, config.norm_eps, config.output_gate),
        o_proj_(scope.Child("o_proj"), heads_.value_dim(), d_model, /*bias=*/false) {
    const at::Tensor wide = AtLeastFloat(in_proj_.weight());
    log_decays_ = LogDecays(config).to(wide.options().requires_grad(false));
  }

  MixerOutput Forward(const at::Tensor& x, const ForwardOptions& options) const override {
    const std::int64_t batch_size = x.size(0);
    const std::int64_t seq_len = x.size(1);
    const std::int64_t num_heads = heads_.num_heads;
    std::vector<kernels::fused::ColumnBlock> blocks = {2 * heads_.key_dim(), heads_.value_dim()};
    if (has_output_gate()) blocks.emplace_back(heads_.value_dim(), /*only_at_rows=*/true);
    const auto parts = in_proj_.Columns(x, blocks, options.rows, options.path);

    kernels::RecurrenceArgs args;
    // Queries and keys turn alike.
    const std::int64_t head_k_dim = heads_.head_k_dim;
    const at::Tensor turned =
        kernels::fused::RotateHalf(parts[0].unflatten(-1, {2 * num_heads, head_k_dim}),
                                   /*first_position=*/0, head_k_dim, options.path);
    const auto turned_parts = kernels::fused::SplitColumns(
        turned.flatten(2), {heads_.key_dim(), heads_.key_dim()}, options.path);
    args.q = turned_parts[0].unflatten(-1, {num_heads, head_k_dim});
    args.k = turned_parts[1].unflatten(-1, {num_heads, head_k_dim});
    args.v = parts[1].unflatten(-1, {num_heads, heads_.head_v_dim});
    args.log_decay = log_decays_.expand({batch_size, seq_len, num_heads});
    if (options.initial_state != nullptr) args.initial_state = options.initial_state->at("state");
    if (options.taps != nullptr) {
      args.k = TapWriteStrength(*options.taps, args.k, args.v);
      options.taps->Record("log_decay", args.log_decay);
    }
    kernels::RecurrenceResult result = kernels::ScalarDecay(args, options.path);
    if (options.taps != nullptr) TapState(*options.taps, result.final_state);

    const at::Tensor gate = has_output_gate() ? parts.back() : at::Tensor();
    MixerOutput output;
    output.y = norm_.Projected(o_proj_, result.o, gate, options.path, options.rows);
    if (options.want_final_state) {
      output.final_state["state"] = TurnedBack(result.final_state, seq_len, options.path);
    }
    return output;
  }

  State InitialState(std::int64_t batch_size) const override {
    return heads_.InitialState(batch_size, in_proj_.weight());
  }

  StateSize state_size(std::int64_t) const override { return heads_.state_size(); }

 private:
  bool has_output_gate() const { return config_.output_gate != OutputGate::kNone; }

  // The state [B,H,K,V] as the next call sees it, whose first token stands at position 0: every key
  // in it turned back by the length of this call. Only distances count, so no position is carried.
  static at::Tensor TurnedBack(const at::Tensor& state, std::int64_t seq_len,
                               kernels::ExecutionPath path) {
    const at::Tensor columns = state.transpose(-1, -2);  // [B,H,V,K]
    const std::int64_t head_k_dim = columns.size(-1);
    const at::Tensor turned = kernels::fused::RotateHalf(
        columns.reshape({state.size(0), 1, -1, head_k_dim}), -seq_len, head_k_dim, path);
    return turned.view(columns.sizes()).transpose(-1, -2).contiguous();
  }

  RetNetConfig config_;
  MatrixHeads heads_;
  at::Tensor log_decays_;  // [H], fp32 at least
  Linear in_proj_;         // rows: q, k, v, then the output gate
  OutputNorm norm_;
  Linear o_proj_;
};

// 1 - 2^-e lies in (0, 1) and differs from both in float32.
void CheckExponent(double exponent, const std::string& where, const std::string& option) {
  if (exponent > 0 && exponent <= 20) return;
  throw ConfigError(where + "/" + option, "must lie above 0 and be at most 20");
}

std::unique_ptr<Mixer> Make(const RetNetConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const MatrixHeads heads = MakeMatrixHeads(config, context.d_model, where);
  CheckEps(config.norm_eps, where, "norm_eps");
  CheckExponent(config.first_decay_exponent, where, "first_decay_exponent");
  const double last = config.last_decay_exponent;
  if (last != 0) {
    CheckExponent(last, where, "last_decay_exponent");
  } else {
    CheckExponent(config.first_decay_exponent + static_cast<double>(config.num_heads - 1), where,
                  "num_heads");
  }
  DivideExactly(heads.head_k_dim, 2, where, "expand_k", "the key channels of a head,");
  return std::make_unique<RetNet>(config, heads, context.d_model, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "retention: rotated keys and a constant decay per head";
  entry.source = "arXiv 2307.08621";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 0.5},
             {"expand_v", 1},
             {"first_decay_exponent", 1},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"first_decay_exponent", 3}, {"last_decay_exponent", 9}, {"output_gate", "sigmoid"}},
  };
  registry.Add("retnet", std::move(entry));
}

}  // namespace mixerbench::models::retnet
