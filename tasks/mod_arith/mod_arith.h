// Modular arithmetic: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/mod_arith/mod_arith_sampler.h"
#include "tasks/task.h"

namespace mixerbench::tasks::mod_arith {

struct ModArithParams {
  std::int64_t modulus = 5;
  std::int64_t expression_len = 39;  // digits and operators; `=` follows
  bool precedence = false;           // * before + and -; false: left to right
  bool cumulative = false;           // ask for the value so far at every digit; false: at `=`
};

// Names, types and help of the options.
const Fields<ModArithParams>& ModArithFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const ModArithParams& params, const std::string& where);

std::unique_ptr<Task> MakeModArith(const ModArithParams& params);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::mod_arith
