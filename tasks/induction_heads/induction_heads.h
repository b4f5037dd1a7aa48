// Induction heads: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/induction_heads/induction_heads_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::induction_heads {

struct InductionHeadsParams {
  std::int64_t vocab_size = 16;  // ordinary tokens; the special token comes on top
  std::int64_t input_seq_len = 256;
  std::int64_t prefix_len = -1;  // first places of the special token; -1: input_seq_len - 2
};

// Names, types and help of the options.
const Fields<InductionHeadsParams>& InductionHeadsFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const InductionHeadsParams& params, const std::string& where);

std::unique_ptr<Task> MakeInductionHeads(const InductionHeadsParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::induction_heads
