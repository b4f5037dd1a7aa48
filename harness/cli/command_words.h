// The words of the command line's own tree, hidden ones aside, for what is written out of it:
// completion and the manual page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace mixerbench::harness::cli {

// An option, or an argument that has a place instead of a dash.
struct OptionWords {
  std::string name;                                  // of an argument with a place
  std::vector<std::string> short_names, long_names;  // with their dashes
  std::string help;
  std::string value;        // what a value is called: "TEXT", "KEY=VALUE"
  std::string standard;     // the value without it; empty where there is nothing to say
  std::string environment;  // the variable that stands in for it; mostly empty
  bool takes_value = false;
  bool is_required = false;
  bool repeats = false;
  std::vector<std::string> choices;  // none: any text

  std::vector<std::string> names() const {
    std::vector<std::string> all = short_names;
    all.insert(all.end(), long_names.begin(), long_names.end());
    return all;
  }
};

struct CommandWords {
  // " mixer run": the commands that lead here, each behind a space; "" at the top.
  std::string path;
  std::string help;
  std::vector<OptionWords> options;
  std::vector<OptionWords> positionals;
  std::vector<CommandWords> commands;

  std::string name() const { return path.substr(path.rfind(' ') + 1); }
};

// Of everything below `app`.
CommandWords WordsOf(const CLI::App& app);

// All commands, the top first, each before those below it. Views of `top`.
std::vector<const CommandWords*> Flatten(const CommandWords& top);

}  // namespace mixerbench::harness::cli
