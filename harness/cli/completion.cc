// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/completion.h"

#include <cstddef>
#include <fmt/format.h>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/transform.hpp>
#include <vector>

#include "harness/cli/command_words.h"

namespace mixerbench::harness::cli {
namespace {

std::string Join(const std::vector<std::string>& words, const char* separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::vector<std::string> NamesBelow(const CommandWords& command) {
  return command.commands | ranges::views::transform(&CommandWords::name) |
         ranges::to<std::vector>();
}

// `text` between single quotes, where `quote` stands for a single quote.
std::string Quoted(const std::string& text, const char* quote) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string(quote) : std::string(1, c);
  return quoted + "'";
}

// --- bash ---------------------------------------------------------------------------------------

// "    ' run --out' | ' run -o') TEXT ;;", nothing without patterns.
std::string BashCase(const std::vector<std::string>& patterns, const std::string& text) {
  if (patterns.empty()) return "";
  const auto in_quotes = [](const std::string& pattern) { return Quoted(pattern, R"('\'')"); };
  const auto quoted = patterns | ranges::views::transform(in_quotes) | ranges::to<std::vector>();
  return fmt::format("    {}) {} ;;\n", Join(quoted, " | "), text);
}

std::string BashWords(const std::vector<std::string>& words) {
  return "words=" + Quoted(Join(words, " "), R"('\'')");
}

constexpr std::string_view kBash =
    R"bash(# Completion of {program} for bash, made by `{program} completion bash`. Source it, or keep it as
# ~/.local/share/bash-completion/completions/{program}.
_{program}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} path='' number=0 i words=''
  COMPREPLY=()
  if [[ $cur == '=' ]]; then  # bash takes --option=value apart
    cur=''
  elif [[ $prev == '=' ]]; then
    prev=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$path ${{COMP_WORDS[i]}}" in
{commands}    *) break ;;
    esac
    path+=" ${{COMP_WORDS[i]}}"
  done
  for (( ; i < COMP_CWORD; ++i)); do  # the arguments before this word
    case "$path ${{COMP_WORDS[i]}}" in
{valued}    "$path -"* | "$path =") ;;
    *) ((number += 1)) ;;
    esac
  done
  case "$path $prev" in
{values}    *)
      if [[ $cur == -* ]]; then
        case $path in
{options}        esac
      else
        case "$path $number" in
{arguments}        *) return ;;
        esac
      fi
      ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _{program} {program}
)bash";

std::string BashScript(const std::string& program, const CommandWords& top) {
  const std::vector<const CommandWords*> all = Flatten(top);
  std::vector<std::string> commands, valued;
  std::string values, options, arguments;
  for (const CommandWords* command : all) {
    const std::string& path = command->path;
    if (!path.empty()) commands.push_back(path);
    std::vector<std::string> names, any_text;
    for (const OptionWords& option : command->options) {
      std::vector<std::string> patterns;
      for (const std::string& name : option.names()) {
        names.push_back(name);
        if (option.takes_value) patterns.push_back(path + " " + name);
      }
      valued.insert(valued.end(), patterns.begin(), patterns.end());
      if (option.choices.empty()) {
        any_text.insert(any_text.end(), patterns.begin(), patterns.end());
      } else {
        values += BashCase(patterns, BashWords(option.choices));
      }
    }
    values += BashCase(any_text, "return");
    options += "      " + BashCase({path}, BashWords(names));
    if (!command->commands.empty()) {
      arguments += "      " + BashCase({path + " 0"}, BashWords(NamesBelow(*command)));
    }
    for (std::size_t i = 0; i < command->positionals.size(); ++i) {
      const std::vector<std::string>& choices = command->positionals[i].choices;
      if (choices.empty()) continue;
      arguments += "      " + BashCase({path + " " + std::to_string(i)}, BashWords(choices));
    }
  }
  return fmt::format(
      kBash, fmt::arg("program", program), fmt::arg("commands", BashCase(commands, "")),
      fmt::arg("valued",
               BashCase(valued, R"([[ ${COMP_WORDS[i + 1]} == '=' ]] && ((i += 1)); ((i += 1)))")),
      fmt::arg("values", values), fmt::arg("options", options), fmt::arg("arguments", arguments));
}

// --- zsh ----------------------------------------------------------------------------------------

// For the text of a specification of _arguments, inside single quotes.
std::string ZshText(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("[]:\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  }
  return escaped;
}

std::string ZshValue(const std::vector<std::string>& choices) {
  return choices.empty() ? "_files" : "(" + Join(choices, " ") + ")";
}

// One line for each name of an option; the others of its names exclude it unless it may repeat.
std::string ZshOption(const OptionWords& option) {
  std::string lines;
  const std::string before = option.repeats ? "*" : "(" + Join(option.names(), " ") + ")";
  for (const std::string& name : option.names()) {
    const bool is_long = name.starts_with("--");
    lines += fmt::format("    '{}{}{}[{}]{}' \\\n", before, name,
                         option.takes_value && is_long ? "=" : "", ZshText(option.help),
                         option.takes_value ? ":value:" + ZshValue(option.choices) : "");
  }
  return lines;
}

std::string ZshFunction(const std::string& program, const CommandWords& command) {
  std::string name = "_" + program + command.path;
  for (char& c : name) c = c == ' ' ? '_' : c;
  std::string text = name + "() {\n  local line state\n  _arguments -C \\\n";
  for (const OptionWords& option : command.options) text += ZshOption(option);
  if (command.commands.empty()) {
    for (const OptionWords& argument : command.positionals) {
      text += fmt::format("    ':argument:{}' \\\n", ZshValue(argument.choices));
    }
    return text + "    '*:file:_files'\n}\n\n";
  }
  std::string list, cases;
  for (const CommandWords& below : command.commands) {
    list += fmt::format(" {}\\:\"{}\"", below.name(), ZshText(below.help));
    cases += fmt::format("    {}) {}_{} ;;\n", below.name(), name, below.name());
  }
  return text +
         fmt::format("    '1:command:(({}))' \\\n    '*::argument:->argument'\n", list.substr(1)) +
         "  [[ $state == argument ]] || return\n  case $line[1] in\n" + cases + "  esac\n}\n\n";
}

std::string ZshScript(const std::string& program, const CommandWords& top) {
  const std::vector<const CommandWords*> all = Flatten(top);
  std::string text = fmt::format(
      "#compdef {0}\n# Completion of {0} for zsh, made by `{0} completion zsh`. Source it after "
      "compinit, or keep it "
      "as\n# _{0} in a folder of $fpath.\n\n",
      program);
  for (const CommandWords* command : all) text += ZshFunction(program, *command);
  return text +
         fmt::format(
             "if [[ $funcstack[1] == _{0} ]]; then\n  _{0} \"$@\"\nelse\n  compdef _{0} {0}\nfi\n",
             program);
}

// --- fish ---------------------------------------------------------------------------------------

std::string FishQuoted(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '\\' ? std::string(R"(\\)") : std::string(1, c);
  return Quoted(escaped, R"(\')");
}

constexpr std::string_view kFish =
    R"fish(# Completion of {program} for fish, made by `{program} completion fish`. Source it, or keep it as
# ~/.config/fish/completions/{program}.fish.
function __{program}_at -d 'The line begins with these commands'
    set -l words (commandline -opc)[2..-1]
    set -l number (count $argv)
    test (count $words) -ge $number; or return 1
    test $number -eq 0; or test "$words[1..$number]" = "$argv"
end
function __{program}_is -d 'The line has these commands and no more'
    test (count (commandline -opc)) -eq (math (count $argv) + 1); and __{program}_at $argv
end
{lines})fish";

std::string FishScript(const std::string& program, const CommandWords& top) {
  const std::vector<const CommandWords*> all = Flatten(top);
  std::string lines;
  for (const CommandWords* command : all) {
    const auto line = [&](const char* test, const std::string& rest) {
      lines += fmt::format("complete -c {0} -n '__{0}_{1}{2}' {3}\n", program, test, command->path,
                           rest);
    };
    for (const CommandWords& below : command->commands) {
      line("is", fmt::format("-f -a {} -d {}", below.name(), FishQuoted(below.help)));
    }
    if (!command->positionals.empty() && !command->positionals.front().choices.empty()) {
      line("is", "-f -a " + FishQuoted(Join(command->positionals.front().choices, " ")));
    }
    for (const OptionWords& option : command->options) {
      std::string rest;
      for (const std::string& name : option.short_names) rest += "-s " + name.substr(1) + " ";
      for (const std::string& name : option.long_names) rest += "-l " + name.substr(2) + " ";
      if (!option.choices.empty()) {
        rest += "-x -a " + FishQuoted(Join(option.choices, " ")) + " ";
      } else if (option.takes_value) {
        rest += "-r ";
      }
      line("at", rest + "-d " + FishQuoted(option.help));
    }
  }
  return fmt::format(kFish, fmt::arg("program", program), fmt::arg("lines", lines));
}

}  // namespace

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  const CommandWords top = WordsOf(app);
  if (shell == "bash") return BashScript(app.get_name(), top);
  return shell == "zsh" ? ZshScript(app.get_name(), top) : FishScript(app.get_name(), top);
}

}  // namespace mixerbench::harness::cli
