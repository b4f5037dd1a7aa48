// VT, variable tracking: options and rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/task.h"
#include "tasks/text/haystack_options.h"
#include "tasks/text/text_library.h"
#include "tasks/text/text_options.h"

namespace mixerbench::tasks::vt {

struct VtParams : TextOptions, HaystackOptions {
  HaystackType type_haystack = HaystackType::kNoise;
  std::int64_t num_chains = 1;
  std::int64_t num_hops = 4;  // assignments after the first of a chain

  bool example = false;  // a short solved question first; not in the sampling key
};

const Fields<VtParams>& VtFields();

// Throws ConfigError at `where` for the first rule that is broken.
void Validate(const VtParams& params, const std::string& where);

// Throws ConfigError or Error(kBadInput) at `where`.
std::unique_ptr<Task> MakeVt(const VtParams& params, std::shared_ptr<TextLibrary> library,
                             const std::string& where);

void Register(TaskRegistry& registry);

}  // namespace mixerbench::tasks::vt
