// MAD compression: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/mad_compression/mad_compression_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::mad_compression {

struct MadCompressionParams {
  std::int64_t vocab_size = 16;
  std::int64_t input_seq_len = 32;    // data tokens and the compression token
  std::int64_t noise_vocab_size = 0;  // tokens of their own for noise
  double frac_noise = 0;              // probability that a data token is noise
};

// Names, types and help of the options.
const Fields<MadCompressionParams>& MadCompressionFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const MadCompressionParams& params, const std::string& where);

std::unique_ptr<Task> MakeMadCompression(const MadCompressionParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::mad_compression
