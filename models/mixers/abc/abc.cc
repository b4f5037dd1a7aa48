// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/abc/abc.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/softmax.h>

#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/rotary_state.h"
#include "models/blocks/slot_memory.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"
#include "models/mixers/abc/cumulative_softmax.h"

namespace mixerbench::models::abc {
namespace {

constexpr double kMaxLogit = 32;
constexpr char kSums[] = "sums";

const Fields<AbcConfig>& ConfigFields() {
  static const auto fields =
      MatrixFields<AbcConfig>()
          .Add("expand_v", &AbcConfig::expand_v, "value channels per channel of d_model")
          .Add("num_slots", &AbcConfig::num_slots,
               "slots of a head; 0: as many as it has key channels")
          .Add("norm", &AbcConfig::norm, "of the writes: over earlier tokens, or over the slots")
          .Add("rotary", &AbcConfig::rotary, "rotary embedding of queries and keys")
          .Add("gate_low_rank_dim", &AbcConfig::gate_low_rank_dim,
               "width between two projections of the output gate; 0: one projection");
  return fields;
}

// The logits of the writes come as args.beta [B,T,H,M].
class Core {
 public:
  Core(const AbcConfig& config, const SlotLayout& slots) : config_(config), slots_(slots) {}

  at::Tensor operator()(const kernels::RecurrenceArgs& args, const MixerOptions& options,
                        Mixed& mixed) const {
    kernels::GsaArgs gsa{.q = args.q, .k = args.k, .v = args.v, .scale = slots_.scale};
    if (config_.norm == AbcNorm::kCumulative) {
      const auto gates =
          CumulativeSoftmax(args.beta, Find(options.initial_state, kSums), options.path);
      gsa.slot_writes = gates.writes;
      gsa.log_decay = gates.log_decay;
      if (options.want_final_state) mixed.final_state.tensors[kSums] = {gates.final_sums};
    } else {
      gsa.slot_writes = at::softmax(args.beta, -1);
    }
    if (options.taps) {
      const at::Tensor writes = gsa.slot_writes;
      gsa.slot_writes = TapMeanWriteGate(options.taps, writes);
      if (gsa.log_decay.defined()) {
        gsa.log_decay = LogDecayOfWrites(gsa.slot_writes, writes, gsa.log_decay);
        options.taps.Record("log_decay", gsa.log_decay);
      }
    }
    at::Tensor o = RunSlots(gsa, options, mixed);
    if (config_.rotary && options.want_final_state) {
      at::Tensor& keys = mixed.final_state.tensors.at("keys").value;
      keys = TurnedBack(keys, args.k.size(1), options.path);
    }
    return o;
  }

 private:
  AbcConfig config_;
  SlotLayout slots_;
};

std::unique_ptr<Mixer> Make(const AbcConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_slots, 0, 4096, where, "num_slots");
  CheckRange(config.gate_low_rank_dim, 0, 4096, where, "gate_low_rank_dim");
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  if (config.rotary) {
    DivideExactly(layout.head_k_dim, 2, where, "expand_k", "the key channels of a head,");
    layout.rotary = true;
  }
  const std::int64_t slots = config.num_slots > 0 ? config.num_slots : layout.head_k_dim;
  layout.gate_columns = {layout.num_heads * slots};
  layout.write_gate = WriteGate::kOwn;
  layout.output.gate_rank = config.gate_low_rank_dim;
  const SlotLayout memory{.num_heads = layout.num_heads,
                          .head_k_dim = layout.head_k_dim,
                          .num_slots = slots,
                          .head_v_dim = layout.head_v_dim,
                          .scale = 1 / std::sqrt(static_cast<double>(layout.head_k_dim))};
  const auto gates = [heads = layout.num_heads, slots](const std::vector<at::Tensor>& columns,
                                                       const MixerOptions&,
                                                       kernels::RecurrenceArgs& args) {
    args.beta = AtLeastFloat(columns[0]).clamp(-kMaxLogit, kMaxLogit).unflatten(-1, {heads, slots});
  };
  MatrixCore core{.run = Core(config, memory), .states = SlotStates(memory)};
  if (config.norm == AbcNorm::kCumulative) {
    core.states.push_back({kSums, {layout.num_heads, slots}});
  }
  return std::make_unique<MatrixStateMixer>(layout, gates, std::move(core), context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "attention with bounded-memory control: slots that are weighted running means";
  entry.source = "arXiv 2110.02488";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 1},
             {"expand_v", 2},
             {"num_slots", 5},
             {"rotary", false},
             {"conv_size", 4},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"norm", "none"}, {"gate_low_rank_dim", 4}, {"output_gate", "sigmoid"}},
  };
  registry.Add("abc", std::move(entry));
}

}  // namespace mixerbench::models::abc
