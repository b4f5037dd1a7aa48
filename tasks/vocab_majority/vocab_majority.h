// Vocabulary majority: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/task.h"
#include "tasks/vocab_majority/vocab_majority_sampler.h"

namespace mixerbench::tasks::vocab_majority {

struct VocabMajorityParams {
  std::int64_t vocab_size = 16;      // the end token and those that are counted
  std::int64_t input_seq_len = 128;  // counts the end token
};

// Names, types and help of the options.
const Fields<VocabMajorityParams>& VocabMajorityFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const VocabMajorityParams& params, const std::string& where);

std::unique_ptr<Task> MakeVocabMajority(const VocabMajorityParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::vocab_majority
