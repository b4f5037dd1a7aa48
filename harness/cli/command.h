// How a command joins the command line: a function adds its options, bound to values that it owns,
// and says what to do when the command was chosen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/cli/commands.h"

namespace mixerbench::harness::cli {

struct Parser {
  CLI::App& app;
  const EngineCommands& engine;
  std::function<int()>& action;  // of the command that the user chose

  // `run` is called after parsing; it holds the values that the options of `command` are bound to.
  template <typename Run>
  void WhenChosen(CLI::App* command, const Run& run) const {
    command->callback(
        [&chosen = action, run] { chosen = [run] { return static_cast<int>(run()); }; });
  }
};

// Each adds one command or several of a kind.
void AddSampleCommands(const Parser& parser);   // generate, export, score, verify
void AddRunCommands(const Parser& parser);      // run, bench, slurm, report, validate, worker
void AddFolderCommands(const Parser& parser);   // status, repro
void AddCompareCommand(const Parser& parser);   // compare
void AddUnitCommands(const Parser& parser);     // list, describe, mixer, core, schema
void AddProgramCommands(const Parser& parser);  // version, completion, man, doctor

// What is wrong with the words that `app` met, in one line.
std::string UsageFault(const CLI::App& app, const CLI::ParseError& error);

// -s, --set KEY=VALUE, any number of times.
void AddSet(CLI::App* command, std::vector<std::string>& texts, const char* help);

// --json, --html, --junit and --github-summary of a command that yields verdicts, and, once it is
// parsed, the file that the last stands for: throws ConfigError when there is none.
void AddVerdictOutputs(CLI::App* command, VerdictOutputs& outputs, const char* json_help);
void FindJobSummary(const CLI::App& command, VerdictOutputs& outputs);

// A whole number from `low` to `high`, by a message without the digits of the largest number.
CLI::Validator Between(std::int64_t low, std::int64_t high);
CLI::Validator AtLeast(std::int64_t low);
// A number above 0 of `what`, such as "hours", fractions allowed.
CLI::Validator AboveZero(const std::string& what);
// Seconds, fractions allowed, or a time such as 1h30m, which `transform` turns into seconds.
CLI::Validator AtLeastSeconds(double low);

}  // namespace mixerbench::harness::cli
