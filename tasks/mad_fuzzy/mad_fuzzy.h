// MAD fuzzy in-context recall: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "tasks/mad_fuzzy/mad_fuzzy_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::mad_fuzzy {

struct MadFuzzyParams {
  std::int64_t vocab_size = 16;
  std::int64_t input_seq_len = 128;
  bool multi_query = true;            // score every repeated key; false: the last one alone
  std::int64_t noise_vocab_size = 0;  // tokens of their own for noise
  double frac_noise = 0;              // probability that noise stands instead of a pair
  std::int64_t k_motif_size = 3;      // tokens of a key at most
  std::int64_t v_motif_size = 3;      // tokens of a value at most
  KeyLength key_length = KeyLength::kUniform;  // not part of the sampling key
};

// Names, types and help of the options.
const Fields<MadFuzzyParams>& MadFuzzyFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const MadFuzzyParams& params, const std::string& where);

std::unique_ptr<Task> MakeMadFuzzy(const MadFuzzyParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::mad_fuzzy

template <>
struct mixerbench::EnumNames<mixerbench::tasks::mad_fuzzy::KeyLength> {
  using KeyLength = tasks::mad_fuzzy::KeyLength;
  static constexpr std::pair<KeyLength, std::string_view> kNames[] = {
      {KeyLength::kUniform, "uniform"}, {KeyLength::kLongest, "longest"}};
};
