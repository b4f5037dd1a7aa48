// S6: a diagonal state whose step, writes and reads are projections of its input. The whole of the
// mixer s6 and the middle of the Mamba block.
// Source: Mamba (arXiv 2312.00752), section 3 and algorithm 2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "kernels/linear_attention/selective_scan/selective_scan.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"
#include "models/blocks/time_step.h"
#include "models/mixer.h"
#include "models/parameters.h"

namespace mixerbench::models {

// Options of mixers that hold one; their Config has members of these names.
template <typename Config>
void AddSelectiveSsmFields(Fields<Config>& fields) {
  fields.Add("d_state", &Config::d_state, "states of a channel")
      .Add("dt_rank", &Config::dt_rank,
           "width between the two projections of the step; 0: d_model / 16, rounded up")
      .Add("dt_min", &Config::dt_min, "smallest step at the start")
      .Add("dt_max", &Config::dt_max, "largest step at the start")
      .Add("dt_init_floor", &Config::dt_init_floor, "steps drawn below it start there");
}

// Sizes, already checked.
struct SelectiveSsmLayout {
  std::int64_t num_channels = 0;
  std::int64_t d_state = 0;
  std::int64_t dt_rank = 0;
  TimeStepRange steps = {};
  bool fused = true;  // false: the scan by standard operations, to compare with
};

// Throws ConfigError below `where`.
template <typename Config>
SelectiveSsmLayout SelectiveSsmLayoutOf(const Config& config, std::int64_t d_model,
                                        std::int64_t num_channels, const std::string& where) {
  CheckRange(config.d_state, 1, 1024, where, "d_state");
  CheckRange(config.dt_rank, 0, num_channels, where, "dt_rank");
  return {.num_channels = num_channels,
          .d_state = config.d_state,
          .dt_rank = config.dt_rank > 0 ? config.dt_rank : (d_model + 15) / 16,
          .steps = TimeStepRangeOf(config, where)};
}

class SelectiveSsm {
 public:
  // Parameters `x_proj` (rows: low-rank step, B, C), `dt_proj`, `A_log` and `D`.
  SelectiveSsm(const SelectiveSsmLayout& layout, const ParameterScope& scope);

  // Adds "state" [B,D,N], zeros.
  void AddInitialState(std::int64_t batch_size, State& state) const;

  // u [B,T,D], z the logits of the gate [B,T,D], undefined without -> y [B,T,D]. Takes its state
  // from `options` and leaves the final one in `mixed` if it is wanted.
  at::Tensor operator()(const at::Tensor& u, const at::Tensor& z, const MixerOptions& options,
                        Mixed& mixed) const;

 private:
  kernels::SelectiveScanResult Scan(const kernels::SelectiveScanArgs& args,
                                    ExecutionPath path) const;
  // Records steps and decays; runs the scan with what is written replaced if somebody asks for it.
  kernels::SelectiveScanResult TappedScan(const kernels::SelectiveScanArgs& args,
                                          const MixerOptions& options) const;

  SelectiveSsmLayout layout_;
  Linear x_proj_;
  Linear dt_proj_;      // its bias is added inside the scan
  at::Tensor dt_bias_;  // [D]
  at::Tensor A_log_;    // [D,N]
  at::Tensor D_;        // [D]
};

}  // namespace mixerbench::models
