// Selective copying: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/selective_copying/selective_copying_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::selective_copying {

struct SelectiveCopyingParams {
  std::int64_t vocab_size = 16;          // noise, data and the marker
  std::int64_t num_tokens_to_copy = 16;  // data tokens, and markers
  std::int64_t prefix_len = 4112;        // tokens before the markers
  bool variable = true;                  // data at random positions; false: at the start
  bool reverse = false;                  // answers in reverse order
};

// Names, types and help of the options.
const Fields<SelectiveCopyingParams>& SelectiveCopyingFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const SelectiveCopyingParams& params, const std::string& where);

std::unique_ptr<Task> MakeSelectiveCopying(const SelectiveCopyingParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::selective_copying
