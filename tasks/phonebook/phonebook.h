// Phonebook look-up: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/task.h"
#include "tasks/text/text_library.h"
#include "tasks/text/text_options.h"

namespace mixerbench::tasks::phonebook {

struct PhonebookParams : TextOptions {
  PhonebookParams() { input_seq_len = 8192; }

  std::int64_t min_entries = 10;
  std::int64_t max_entries = 300;
};

const Fields<PhonebookParams>& PhonebookFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const PhonebookParams& params, const std::string& where);

// Throws ConfigError or Error(kBadInput) at `where`.
std::unique_ptr<Task> MakePhonebook(const PhonebookParams& params,
                                    std::shared_ptr<TextLibrary> library, const std::string& where);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::phonebook
