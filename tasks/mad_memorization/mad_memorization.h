// MAD memorization: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/mad_memorization/mad_memorization_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::mad_memorization {

struct MadMemorizationParams {
  std::int64_t vocab_size = 256;
  std::int64_t input_seq_len = 32;    // an odd length loses its last token
  std::int64_t noise_vocab_size = 0;  // tokens of their own for noise
  double frac_noise = 0;              // probability of a noise slot
  std::int64_t map_seed = 12345;      // which map; not part of the sampling key
};

// Names, types and help of the options.
const Fields<MadMemorizationParams>& MadMemorizationFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const MadMemorizationParams& params, const std::string& where);

std::unique_ptr<Task> MakeMadMemorization(const MadMemorizationParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::mad_memorization
