// Phone book in tokens: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/phonebook_tok/phonebook_tok_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::phonebook_tok {

struct PhonebookTokParams {
  std::int64_t num_entries = 20;
};

// Names, types and help of the options.
const Fields<PhonebookTokParams>& PhonebookTokFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const PhonebookTokParams& params, const std::string& where);

std::unique_ptr<Task> MakePhonebookTok(const PhonebookTokParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::phonebook_tok
