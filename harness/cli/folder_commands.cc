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

void AddRepro(const Parser& parser) {
  const auto options = std::make_shared<ReproOptions>();
  auto* command =
      parser.app.add_subcommand("repro", "Run a finished cell again and compare the bits");
  command->add_option("out", options->out, "output folder of a run")->required();
  command->add_option("cell", options->cell, "first digits of its id, or its name, as in `status`")
      ->required();
  command->add_option("--device", options->device, "cpu or cuda[:i], of the kind that it ran on");
  command->add_flag("--json", options->json, "JSON on stdout, with every difference");
  command->add_flag("-q,--quiet", options->quiet, "no progress");
  parser.WhenChosen(command, [options, &engine = parser.engine] { return engine.repro(*options); });
}

}  // namespace

void AddFolderCommands(const Parser& parser) {
  AddStatus(parser);
  AddRepro(parser);
}

}  // namespace mixerbench::harness::cli
