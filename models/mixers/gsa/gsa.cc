// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gsa/gsa.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/silu.h>

#include "kernels/gates/gates.h"
#include "models/blocks/grouped_queries.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/slot_memory.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::gsa {
namespace {

const Fields<GsaConfig>& ConfigFields() {
  static const auto fields =
      MatrixFields<GsaConfig>(
          "width of a convolution before the maps of q and k and the silu of v; 0: these alone")
          .Add("num_kv_heads", &GsaConfig::num_kv_heads,
               "heads of keys, values, slots and their gates; divides num_heads; 0: num_heads")
          .Add("expand_v", &GsaConfig::expand_v, "value channels per channel of d_model")
          .Add("num_slots", &GsaConfig::num_slots,
               "slots of a head; 0: as many as it has key channels")
          .Add("feature_map", &GsaConfig::feature_map, "of queries and keys")
          .Add("gate_logit_normalizer", &GsaConfig::gate_logit_normalizer,
               "log decay of a slot = log sigmoid(logit) / this");
  return fields;
}

std::unique_ptr<Mixer> Make(const GsaConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_slots, 0, 4096, where, "num_slots");
  CheckPositive(config.gate_logit_normalizer, where, "gate_logit_normalizer");
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  GroupQueries(config.num_kv_heads, where, layout);
  layout.silu = false;  // the maps follow the convolution
  const std::int64_t slots = config.num_slots > 0 ? config.num_slots : layout.head_k_dim;
  layout.gate_columns = {layout.num_heads * slots};
  layout.write_gate = WriteGate::kOwn;
  layout.output.silu_before_norm = true;
  layout.output.norm = OutputNormKind::kAllHeads;
  const FeatureMap map(config.feature_map, layout.head_k_dim, scope.Child("feature_map"));
  const auto gates = [=, heads = layout.num_heads](const std::vector<at::Tensor>& columns,
                                                   const MixerOptions& options,
                                                   kernels::RecurrenceArgs& args) {
    args.q = map(args.q, options.path);
    args.k = map(args.k, options.path);
    args.v = at::silu(args.v);
    args.log_decay = TapSlotWrites(
        options.taps, kernels::LogSigmoidDecay(columns[0], config.gate_logit_normalizer,
                                               /*floor=*/0, options.path)
                          .unflatten(-1, {heads, slots}));
  };
  const SlotLayout memory{.num_heads = layout.num_heads,
                          .head_k_dim = map.output_dim(),
                          .num_slots = slots,
                          .head_v_dim = layout.head_v_dim};
  return std::make_unique<MatrixStateMixer>(layout, gates, SlotMemory(memory), context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "gated slot attention: softmax over a fixed number of slots of keys and values";
  entry.source = "arXiv 2409.07146";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"num_slots", 5},
             {"feature_map", "relu"},
             {"gate_logit_normalizer", 1},
             {"conv_size", 4},
             {"norm_eps", 1e-6}},
      Object{{"feature_map", "t2r"}, {"gate_logit_normalizer", 0.1}},
      Object{{"num_kv_heads", 1}},
  };
  registry.Add("gsa", std::move(entry));
}

}  // namespace mixerbench::models::gsa
