// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/command_words.h"

#include <cstddef>
#include <sstream>

namespace mixerbench::harness::cli {
namespace {

// "TEXT:{a,b}": what the validator of an option lists.
std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find(":{");
  std::vector<std::string> choices;
  if (open == type.npos || !type.ends_with('}')) return choices;
  std::istringstream list(type.substr(open + 2, type.size() - open - 3));
  for (std::string item; std::getline(list, item, ',');) choices.push_back(item);
  return choices;
}

std::string ValueName(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

OptionWords WordsOf(const CLI::Option& option) {
  OptionWords words;
  for (const std::string& name : option.get_snames()) words.short_names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.long_names.push_back("--" + name);
  if (option.get_positional()) words.name = option.get_single_name();
  words.help = option.get_description();
  words.value = ValueName(option);
  words.standard = option.get_default_str();
  words.environment = option.get_envname();
  words.takes_value = option.get_items_expected_max() > 0;
  words.is_required = option.get_required();
  words.repeats = option.get_expected_max() > 1;
  words.choices = ChoicesOf(option);
  return words;
}

CommandWords WordsOf(const CLI::App& app, const std::string& path) {
  CommandWords words;
  words.path = path;
  words.help = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      words.positionals.push_back(WordsOf(*option));
    } else if (!option->get_group().empty()) {
      words.options.push_back(WordsOf(*option));
    }
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;  // hidden
    words.commands.push_back(WordsOf(*command, path + " " + command->get_name()));
  }
  return words;
}

void Append(const CommandWords& command, std::vector<const CommandWords*>& all) {
  all.push_back(&command);
  for (const CommandWords& below : command.commands) Append(below, all);
}

}  // namespace

CommandWords WordsOf(const CLI::App& app) { return WordsOf(app, ""); }

std::vector<const CommandWords*> Flatten(const CommandWords& top) {
  std::vector<const CommandWords*> all;
  Append(top, all);
  return all;
}

}  // namespace mixerbench::harness::cli
