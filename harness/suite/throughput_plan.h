// What a throughput cell measures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "io/form.h"

namespace mixerbench::harness {

struct ThroughputPlan {
  std::vector<std::int64_t> seq_len;  // none where steps alone are measured
  std::int64_t batch_size = 8;
  std::vector<std::string> phases;  // fwd, fwd_bwd, prefill, decode, train_step
  std::int64_t num_samples = 20;

  bool Measures(std::string_view phase) const;
  bool MeasuresStepsAlone() const;
};

// Of "/throughput".
const io::Form& ThroughputForm();

// Parses "/throughput" of a suite or a cell, and back. Throws ConfigError.
ThroughputPlan ParseThroughputPlan(const Value& value);
Value ThroughputPlanToValue(const ThroughputPlan& plan);

// Of a suite's `value`, of which `plan` was parsed: throws ConfigError for a member that changes
// nothing. Cells of earlier versions have such.
void CheckHasEffect(const ThroughputPlan& plan, const Value& value);

}  // namespace mixerbench::harness
