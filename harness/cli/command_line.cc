// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/command_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>

#include "base/suggest.h"
#include "base/version.h"
#include "harness/cli/command.h"
#include "harness/cli/standard_output.h"
#include "harness/cli/values.h"
#include "harness/run/verdict_outputs.h"

namespace mixerbench::harness {
namespace cli {
namespace {

constexpr std::size_t kMaxShownText = 40;  // of what the user typed

// "--jobs", "--device", ... of one command.
std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<const CLI::App*> Commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// CLI11 writes "..." behind an option that may be given several times, as if one took many values.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = Formatter::make_option_opts(option);
    const std::size_t dots = text.find(" ...");
    if (dots == std::string::npos || option->get_positional() || option->get_allow_extra_args()) {
      return text;
    }
    return text.replace(dots, 4, ", repeatable");
  }
};

// The words in front must be commands, so that a misspelt one is named.
void CheckCommandNames(const CLI::App& app, int argc, char** argv) {
  std::vector<const CLI::App*> commands = Commands(app);
  for (int i = 1; i < argc && argv[i][0] != '-' && !commands.empty(); ++i) {
    const auto found = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* command) {
      return command->get_name() == argv[i];
    });
    if (found == commands.end()) {
      std::vector<std::string> names;
      for (const CLI::App* command : commands) {
        if (!command->get_group().empty()) names.push_back(command->get_name());  // not hidden
      }
      throw ConfigError("", UnknownName("command", argv[i], names));
    }
    commands = Commands(**found);
  }
}

// What a parser that met something it does not know says of it.
std::string UnexpectedArgument(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const std::vector<std::string> unexpected = command->remaining();
  if (unexpected.empty()) return "";
  const std::string word = unexpected.front().substr(0, unexpected.front().find('='));
  if (!word.starts_with("-")) return "unexpected argument '" + word.substr(0, kMaxShownText) + "'";
  const std::string closest = ClosestName(word, OptionNames(*command));
  return "unknown option '" + word.substr(0, kMaxShownText) + "'" +
         (closest.empty() ? "" : " (did you mean '" + closest + "'?)");
}

std::string OutOfRange(const std::string& range, const std::string& text) {
  return "must be " + range + ", got '" + text.substr(0, kMaxShownText) + "'";
}

}  // namespace

std::string UsageFault(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = UnexpectedArgument(app);
  if (text.empty()) text = error.what();
  return text.substr(0, text.find('\n'));
}

void AddSet(CLI::App* command, std::vector<std::string>& texts, const char* help) {
  command->add_option("-s,--set", texts, help)->allow_extra_args(false)->type_name("KEY=VALUE");
}

void AddVerdictOutputs(CLI::App* command, VerdictOutputs& outputs, const char* json_help) {
  command->add_flag("--json", outputs.json, json_help);
  command->add_option("--html", outputs.html_file, "write a page");
  command->add_option("--junit", outputs.junit_file, "write JUnit XML");
  command
      ->add_option("--github-summary", outputs.job_summary,
                   "append to a job summary, default $GITHUB_STEP_SUMMARY; annotates the job")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

void FindJobSummary(const CLI::App& command, VerdictOutputs& outputs) {
  if (command.count("--github-summary") == 0) return;
  outputs.job_summary = JobSummaryFile(outputs.job_summary);
}

CLI::Validator Between(std::int64_t low, std::int64_t high) {
  const std::string range =
      high == std::numeric_limits<std::int64_t>::max()
          ? "a whole number >= " + std::to_string(low)
          : "a whole number in " + std::to_string(low) + ".." + std::to_string(high);
  return {[=](const std::string& text) -> std::string {
            std::int64_t value = 0;
            const char* end = text.data() + text.size();
            const auto parsed = std::from_chars(text.data(), end, value);
            const bool ok = parsed.ec == std::errc() && parsed.ptr == end;
            return ok && low <= value && value <= high ? "" : OutOfRange(range, text);
          },
          ""};
}

CLI::Validator AtLeast(std::int64_t low) {
  return Between(low, std::numeric_limits<std::int64_t>::max());
}

CLI::Validator AboveZero(const std::string& what) {
  return {[=](const std::string& text) -> std::string {
            double value = 0;
            const char* end = text.data() + text.size();
            const auto parsed = std::from_chars(text.data(), end, value);
            const bool ok = parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(value);
            return ok && value > 0 ? "" : OutOfRange(what + " above 0", text);
          },
          ""};
}

CLI::Validator AtLeastSeconds(double low) {
  return {[=](std::string& text) -> std::string {
            const std::optional<double> value = ParseSeconds(text);
            if (!value || *value < low) {
              return OutOfRange(low > 0
                                    ? "seconds above 0, or a time such as 1h30m, up to 36525d"
                                    : "seconds, at least 0, or a time such as 1h30m, up to 36525d",
                                text);
            }
            if (text.find_first_of("dhms") != text.npos) text = std::to_string(*value);
            return "";
          },
          ""};
}

namespace {

int ParseAndRun(int argc, char** argv, const EngineCommands& engine) {
  CLI::App app{"mixerbench: which sequence mixer remembers, how far, and how fast", "mixerbench"};
  app.formatter(std::make_shared<HelpFormatter>());
  std::function<int()> action;
  const Parser parser{app, engine, action};
  app.require_subcommand(1);
  app.fallthrough(false);
  app.set_version_flag("--version", std::string("mixerbench ") + kVersion);
  AddRunCommands(parser);
  AddFolderCommands(parser);
  AddCompareCommand(parser);
  AddSampleCommands(parser);
  AddUnitCommands(parser);
  AddProgramCommands(parser);
  CheckCommandNames(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answer) {  // --help, --version
    return app.exit(answer);
  } catch (const CLI::ParseError& error) {
    throw ConfigError("", UsageFault(app, error) + "; see mixerbench --help");
  }
  return action();
}

}  // namespace
}  // namespace cli

int Main(int argc, char** argv, const EngineCommands& engine, int answers) {
  cli::PrepareDescriptors();
  cli::StandardOutput output(answers);
  try {
    const int code = cli::ParseAndRun(argc, argv, engine);
    output.Flush();
    return code;
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return static_cast<int>(error.code());
  } catch (const std::filesystem::filesystem_error& error) {
    // From listing a folder or asking what a path is: the user's files, not a fault of this
    // program.
    std::cerr << "error: " << error.path1().string() << ": " << error.code().message() << "\n";
    return static_cast<int>(ExitCode::kBadInput);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    std::cerr << "internal error: " << text.substr(0, text.find('\n'))
              << "; this is a bug, please report it\n";
    return static_cast<int>(ExitCode::kInternal);
  }
}

}  // namespace mixerbench::harness
