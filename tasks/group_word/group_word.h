// Group word problem: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/group_word/group_word_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::group_word {

struct GroupWordParams {
  std::string group = "S5";  // S<n>, A<n>, Z<n> or a product of them
  std::int64_t input_seq_len = 20;
};

// Names, types and help of the options.
const Fields<GroupWordParams>& GroupWordFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const GroupWordParams& params, const std::string& where);

std::unique_ptr<Task> MakeGroupWord(const GroupWordParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::group_word
