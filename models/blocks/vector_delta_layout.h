// Layout of the delta rules with a decay per key channel: KDA, Gated DeltaNet 2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/low_rank_decay.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/value_heads.h"

namespace mixerbench::models {

// All options but how the two kinds of gates are called.
template <typename Config>
Fields<Config> VectorDeltaFields() {
  return WithValueHeads(MatrixFields<Config>(kConvBeforeSilu))
      .Add("gate_low_rank_dim", &Config::gate_low_rank_dim,
           "width between the two projections of decays and of the output gate; 0: value channels "
           "of a head")
      .Add("min_log_decay", &Config::min_log_decay,
           "negative: log decay = this * sigmoid(exp(A_log) logit); 0: -exp(A_log) "
           "softplus(logit)");
}

// layout.output.gate_rank is that width, whether there is an output gate or not. Throws ConfigError
// below `where`.
template <typename Config>
MatrixLayout VectorDeltaLayout(const Config& config, std::int64_t d_model,
                               const std::string& where) {
  CheckRange(config.gate_low_rank_dim, 0, 4096, where, "gate_low_rank_dim");
  CheckMinLogDecay(config.min_log_decay, where);
  MatrixLayout layout = KeyLayoutOf(config, d_model, where);
  SetValueHeads(config, where, layout);
  layout.silu = true;
  layout.l2_norm = true;
  layout.output.gate_rank =
      config.gate_low_rank_dim > 0 ? config.gate_low_rank_dim : layout.head_v_dim;
  layout.output.gate_bias = true;
  return layout;
}

}  // namespace mixerbench::models
