// Hint recall: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/hint_recall/hint_recall_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::hint_recall {

struct HintRecallParams {
  std::int64_t vocab_size = 8192;
  std::int64_t input_seq_len = 128;  // counts one hint, however many are shown

  // The rest does not enter the sampling key.
  bool hint = true;                   // show the key that will be asked first
  std::int64_t hint_prefix = 1;       // hints, all but one of them false
  std::int64_t target_dup = 1;        // how often the target pair comes
  std::int64_t depth_percent = -1;    // place of the target pair; -1: uniform
  std::int64_t noise_vocab_size = 0;  // ids after vocab_size
  double frac_noise = 0;              // of the other pairs, two noise tokens instead
};

// Names, types and help of the options.
const Fields<HintRecallParams>& HintRecallFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const HintRecallParams& params, const std::string& where);

std::unique_ptr<Task> MakeHintRecall(const HintRecallParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::hint_recall
