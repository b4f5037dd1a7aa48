// The texts of suites, built in or in files. Without libtorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace mixerbench::harness {

// Reads "NAME" of a built-in suite or a path. Throws Error(kBadInput) or ConfigError.
std::string ReadSuiteText(const std::string& name_or_path);

std::vector<std::string> BuiltInSuiteNames();

}  // namespace mixerbench::harness
