// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "harness/cli/command.h"

namespace mixerbench::harness::cli {
namespace {

void AddStatus(const Parser& parser) {
  struct Values {
    std::string out;
    bool json = false;
  };
  const auto values = std::make_shared<Values>();
  auto* command = parser.app.add_subcommand(
      "status", "Where the cells of a run folder stand, also while it runs");
  command->add_option("out", values->out, "output folder of a run or of a collection")->required();
  command->add_flag("--json", values->json, "JSON on stdout");
  parser.WhenChosen(command, [values] { return Status(values->out, values->json); });
}

}  // namespace

void AddFolderCommands(const Parser& parser) { AddStatus(parser); }

}  // namespace mixerbench::harness::cli
