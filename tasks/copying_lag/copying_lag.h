// Copying with a lag: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/copying_lag/copying_lag_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::copying_lag {

struct CopyingLagParams {
  std::int64_t vocab_size = 10;  // 0, data and an id that is never used
  std::int64_t input_seq_len = 110;
  std::int64_t lag = 10;  // tokens between an input and its label
};

// Names, types and help of the options.
const Fields<CopyingLagParams>& CopyingLagFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const CopyingLagParams& params, const std::string& where);

std::unique_ptr<Task> MakeCopyingLag(const CopyingLagParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::copying_lag
