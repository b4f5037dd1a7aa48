// The manual page, written out of the command line's own tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/App.hpp>

namespace mixerbench::harness::cli {

// In roff (man(7)): every command with its arguments and options, hidden ones aside.
std::string ManualPage(const CLI::App& app);

}  // namespace mixerbench::harness::cli
