// Group words with swaps: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/group_swap/group_swap_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::group_swap {

struct GroupSwapParams {
  std::int64_t num_points = 5;
  std::int64_t input_seq_len = 32;
};

// Names, types and help of the options.
const Fields<GroupSwapParams>& GroupSwapFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const GroupSwapParams& params, const std::string& where);

std::unique_ptr<Task> MakeGroupSwap(const GroupSwapParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::group_swap
