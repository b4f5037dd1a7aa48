// FWE, frequent words extraction: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/task.h"
#include "tasks/text/text_library.h"
#include "tasks/text/text_options.h"

namespace mixerbench::tasks::fwe {

struct FweParams : TextOptions {
  double alpha = 2;  // the word of rank r is listed in proportion to r^-alpha
};

const Fields<FweParams>& FweFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const FweParams& params, const std::string& where);

// Throws ConfigError or Error(kBadInput) at `where`.
std::unique_ptr<Task> MakeFwe(const FweParams& params, TextLibrary& library,
                              const std::string& where);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::fwe
