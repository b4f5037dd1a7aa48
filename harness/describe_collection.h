// `describe collection`: what a collection runs, and what its score is made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/error.h"
#include "harness/suite/registries.h"

namespace mixerbench::harness {

// Of a built-in collection or a file. Throws what reading it and its suites throws.
ExitCode DescribeCollection(const std::string& name_or_path, bool json,
                            const Registries& registries);

}  // namespace mixerbench::harness
