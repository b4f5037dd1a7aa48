// What reports are called on pages that are made of several.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mixerbench::harness {

// Of each run folder, report.json or standard input a name, no two alike: that of its folder;
// where several have that, with the parent's before it ("a/run"), and with a number where these are
// alike, too. Pages that are published tell no more of the paths of a machine.
std::vector<std::string> SourceNames(const std::vector<std::filesystem::path>& paths);

}  // namespace mixerbench::harness
