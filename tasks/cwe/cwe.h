// CWE, common words extraction: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/task.h"
#include "tasks/text/text_library.h"
#include "tasks/text/text_options.h"

namespace mixerbench::tasks::cwe {

struct CweParams : TextOptions {
  CweParams() { input_seq_len = 4096; }

  std::int64_t num_cw = 10;   // common words
  std::int64_t freq_cw = 0;   // times each common word is listed; 0: by length
  std::int64_t freq_ucw = 0;  // of every other word
  bool example = true;        // a short solved question first; not part of the sampling key
};

const Fields<CweParams>& CweFields();

// Frequencies of 0 become RULER's: 30 and 3, below 4,096 tokens 6 and 1.
CweParams WithFrequencies(CweParams params);

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const CweParams& params, const std::string& where);

// Throws ConfigError or Error(kBadInput) at `where`.
std::unique_ptr<Task> MakeCwe(const CweParams& params, std::shared_ptr<TextLibrary> library,
                              const std::string& where);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::cwe
