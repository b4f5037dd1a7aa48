// MAD selective copying, and plain copying: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/mad_selective_copying/mad_selective_copying_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::mad_selective_copying {

struct MadSelectiveCopyingParams {
  std::int64_t vocab_size = 16;  // data, the blank and the copy token
  std::int64_t input_seq_len = 256;
  std::int64_t num_tokens_to_copy = 16;  // data tokens, and answers
  bool selective = true;                 // blanks between the data tokens; false: after them
};

// Names, types and help of the options.
const Fields<MadSelectiveCopyingParams>& MadSelectiveCopyingFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const MadSelectiveCopyingParams& params, const std::string& where);

std::unique_ptr<Task> MakeMadSelectiveCopying(const MadSelectiveCopyingParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::mad_selective_copying
