// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/man_page.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <vector>

#include "base/version.h"
#include "harness/cli/command_words.h"

namespace mixerbench::harness::cli {
namespace {

// Text that acts nowhere, with dashes that can be copied; also at the start of a line.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c == '\n' ? ' ' : c;
    }
  }
  const bool is_request = escaped.starts_with(".") || escaped.starts_with("'");
  return is_request ? "\\&" + escaped : escaped;
}

std::string Bold(const std::string& text) { return "\\fB" + Escaped(text) + "\\fR"; }
std::string Italic(const std::string& text) { return "\\fI" + Escaped(text) + "\\fR"; }

// "SUITE...", "[NAME]".
std::string ArgumentText(const OptionWords& argument) {
  std::string name = argument.name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::string text = Italic(name) + (argument.repeats ? " ..." : "");
  return argument.is_required ? text : "[" + text + "]";
}

std::string Synopsis(const std::string& program, const CommandWords& command) {
  std::string text = Bold(program + command.path);
  if (!command.options.empty()) text += " [" + Italic("options") + "]";
  if (!command.commands.empty()) text += " " + Italic("command") + " ...";
  for (const OptionWords& argument : command.positionals) text += " " + ArgumentText(argument);
  return text;
}

// A tagged paragraph: what it is, then what it does, its values, its default, its variable.
std::string Paragraph(const std::string& tag, const OptionWords& option) {
  std::string text = ".TP\n" + tag + "\n" + Escaped(option.help) + "\n";
  if (!option.choices.empty()) {
    text +=
        fmt::format("One of: {}.\n", Escaped(fmt::format("{}", fmt::join(option.choices, ", "))));
  }
  if (!option.standard.empty()) text += "Default: " + Escaped(option.standard) + ".\n";
  if (!option.environment.empty()) text += "Also by " + Bold(option.environment) + ".\n";
  return text;
}

std::string OptionText(const OptionWords& option) {
  std::string tag;
  for (const std::string& name : option.names()) tag += (tag.empty() ? "" : ", ") + Bold(name);
  if (option.takes_value) tag += " " + Italic(option.value);
  return Paragraph(tag, option);
}

}  // namespace

std::string ManualPage(const CLI::App& app) {
  const std::string& program = app.get_name();
  const CommandWords top = WordsOf(app);
  std::string title = program;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::string& about = top.help;  // "mixerbench: which sequence mixer ..."
  std::string text = fmt::format(
      ".TH {} 1 \"\" \"{} {}\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n.SH DESCRIPTION\n"
      "The answer goes to standard output, everything else to standard error.\n",
      title, program, kVersion, Escaped(program),
      Escaped(about.starts_with(program + ": ") ? about.substr(program.size() + 2) : about),
      Synopsis(program, top));
  for (const OptionWords& option : top.options) text += OptionText(option);
  text += ".SH COMMANDS\n";
  for (const CommandWords* command : Flatten(top)) {
    if (command->path.empty()) continue;
    text += ".SS " + Synopsis(program, *command) + "\n" + Escaped(command->help) + "\n";
    for (const OptionWords& argument : command->positionals) {
      text += Paragraph(ArgumentText(argument), argument);
    }
    for (const OptionWords& option : command->options) text += OptionText(option);
  }
  return text;
}

}  // namespace mixerbench::harness::cli
