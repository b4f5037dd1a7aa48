// Completion scripts of shells, written out of the command line's own tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/App.hpp>

namespace mixerbench::harness::cli {

// A script for "bash", "zsh" or "fish" that completes every command, option and listed value below
// `app`, hidden ones aside, and files where any word may stand. The shell asks it and not the
// program.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace mixerbench::harness::cli
