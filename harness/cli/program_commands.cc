// Commands about the program itself and where it runs.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>

#include "harness/cli/command.h"
#include "harness/cli/completion.h"
#include "harness/cli/man_page.h"

namespace mixerbench::harness::cli {
namespace {

void AddVersion(const Parser& parser) {
  const auto json = std::make_shared<bool>(false);
  auto* command = parser.app.add_subcommand("version", "Versions of this program");
  command->add_flag("--json", *json, "JSON on stdout");
  parser.WhenChosen(command, [json] { return PrintVersion(*json); });
}

// The tree is complete when a command runs: the order of commands does not matter.
void AddCompletion(const Parser& parser) {
  const auto shell = std::make_shared<std::string>();
  auto* command = parser.app.add_subcommand("completion", "Print a completion script for a shell");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  parser.WhenChosen(command, [shell, &app = parser.app] {
    std::cout << CompletionScript(app, *shell);
    return ExitCode::kOk;
  });
}

void AddManual(const Parser& parser) {
  auto* command = parser.app.add_subcommand("man", "Print the manual page");
  parser.WhenChosen(command, [&app = parser.app] {
    std::cout << ManualPage(app);
    return ExitCode::kOk;
  });
}

void AddDoctor(const Parser& parser) {
  const auto options = std::make_shared<DoctorOptions>();
  auto* command = parser.app.add_subcommand("doctor", "Is this machine fit for runs?");
  command->add_option("-o,--out", options->out, "where runs will write")
      ->envname("MIXERBENCH_OUT")
      ->capture_default_str();
  command->add_option("--device", options->device, "of runs: cpu, cuda[:i] or auto")
      ->envname("MIXERBENCH_DEVICE")
      ->capture_default_str();
  command
      ->add_option("--wait-idle", options->wait_idle_s,
                   "first wait, so long at most, until the GPU is idle")
      ->type_name("SECONDS")
      ->transform(AtLeastSeconds(0));
  command->add_flag("--json", options->json, "JSON on stdout");
  command->add_flag("--engine-only", options->engine_only)->group("");
  parser.WhenChosen(command,
                    [options, &engine = parser.engine] { return Doctor(*options, engine); });
}

}  // namespace

void AddProgramCommands(const Parser& parser) {
  AddVersion(parser);
  AddCompletion(parser);
  AddManual(parser);
  AddDoctor(parser);
}

}  // namespace mixerbench::harness::cli
