// "-" as a file: standard input for commands that read a configuration or a report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace mixerbench::harness::cli {

inline constexpr char kStandardInput[] = "/dev/stdin";

// Turns "-" into the path of standard input, which can then be read any number of times, also by a
// program that takes the place of this one: a pipe is read to its end and kept in memory. Throws
// Error(kBadInput) for a pipe that cannot be read or is larger than any report.
CLI::Validator FileOrStandardInput();

}  // namespace mixerbench::harness::cli
