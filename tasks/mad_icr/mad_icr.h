// MAD in-context recall, clean and noisy: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/mad_icr/mad_icr_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::mad_icr {

struct MadIcrParams {
  std::int64_t vocab_size = 16;
  std::int64_t input_seq_len = 128;   // counts the last answer, which is not an input
  bool multi_query = true;            // score every repeated key; false: the last one alone
  std::int64_t noise_vocab_size = 0;  // tokens of their own for noise
  double frac_noise = 0;              // probability of a noise slot
};

// Names, types and help of the options.
const Fields<MadIcrParams>& MadIcrFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const MadIcrParams& params, const std::string& where);

std::unique_ptr<Task> MakeMadIcr(const MadIcrParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::mad_icr
