// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gated_delta_net_2/gated_delta_net_2.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/sigmoid.h>

#include "kernels/linear_attention/dplr/dplr.h"
#include "models/blocks/dtype.h"
#include "models/blocks/low_rank_core.h"
#include "models/blocks/low_rank_decay.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/vector_delta_layout.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::gated_delta_net_2 {
namespace {

const Fields<GatedDeltaNet2Config>& ConfigFields() {
  using Config = GatedDeltaNet2Config;
  static const auto fields = VectorDeltaFields<Config>().Add(
      "allow_neg_eigval", &Config::allow_neg_eigval, "erase gate in (0,2) instead of (0,1)");
  return fields;
}

std::unique_ptr<Mixer> Make(const GatedDeltaNet2Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  MatrixLayout layout = VectorDeltaLayout(config, context.d_model, where);
  const std::int64_t heads = layout.num_heads;
  // Decays, erase gate, write gate.
  layout.gate_columns = {layout.output.gate_rank, heads * layout.head_k_dim,
                         heads * layout.head_v_dim};
  layout.write_gate = WriteGate::kOwn;
  const LowRankDecay decay(scope, layout.output.gate_rank, heads, layout.head_k_dim,
                           config.min_log_decay);
  const double max_erase = config.allow_neg_eigval ? 2 : 1;
  const auto gates = [=](const std::vector<at::Tensor>& columns, const MixerOptions& options,
                         kernels::RecurrenceArgs& args) {
    const auto gate = [&](const at::Tensor& logits) {
      return at::sigmoid(AtLeastFloat(logits)).unflatten(-1, {heads, -1});
    };
    args.log_decay = decay(columns[0], options.path);
    args.beta = gate(columns[1]) * max_erase;  // [B,T,H,K]
    const at::Tensor write = TapMeanWriteGate(options.taps, gate(columns[2]));
    args.v = (write * args.v).to(args.v.scalar_type());
  };
  const auto factors = [](const kernels::RecurrenceArgs& args, Mixed&) {
    kernels::DplrArgs dplr{
        .recurrence = args, .a = args.k, .b = args.beta * args.k, .recalls_decayed = true};
    dplr.recurrence.beta = at::Tensor();
    return dplr;
  };
  return std::make_unique<MatrixStateMixer>(layout, gates, LowRankCore(factors, layout), context,
                                            scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary =
      "Gated DeltaNet-2: KDA with a gate per key channel for what is erased and one per "
      "value channel for what is written";
  entry.source = "arXiv 2605.22791";
  entry.test_configs = {
      Object{{"num_heads", 1},
             {"num_v_heads", 2},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"conv_size", 0},
             {"gate_low_rank_dim", 4},
             {"min_log_decay", -5},
             {"allow_neg_eigval", true},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"output_gate", "silu"}},
  };
  registry.Add("gated_delta_net_2", std::move(entry));
}

}  // namespace mixerbench::models::gated_delta_net_2
