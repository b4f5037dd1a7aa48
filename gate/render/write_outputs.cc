// write_outputs FOLDER: every output of a comparison, and the JUnit form of a run, whose names try
// to break out of it.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gate/render/comparison_json.h"
#include "gate/render/comparison_page.h"
#include "gate/render/text_renderers.h"
#include "gate/testing/example_comparison.h"
#include "gate/testing/made_results.h"
#include "io/atomic_file.h"
#include "reports/export/run_outputs.h"

namespace mixerbench::gate {
namespace {

// Cells of a run in every state, slow ones and such without a name or a start too.
reports::SweepReport ExampleRun(const std::string& name) {
  std::mt19937_64 random(1);
  std::vector<reports::CellResult> cells;
  for (const auto& [state, text] : EnumNames<reports::CellState>::kNames) {
    reports::CellResult cell = MadeCell({}, 0, "code", random);
    cell.name = "mqar/" + name + "/state=" + std::string(text);
    cell.state = state;
    cell.reason = name;
    cell.run_id = cell.group_id = cell.name;
    cell.wall_s = 123456.78912;
    if (state != reports::CellState::kCompleted) cell.started.clear();
    cells.push_back(std::move(cell));
  }
  return reports::MakeSweepReport(name, {}, std::move(cells));
}

void WriteOutputs(const std::filesystem::path& folder) {
  for (const bool is_hostile : {false, true}) {
    const Comparison comparison = ExampleComparison(is_hostile);
    const ExitCode code = CodeOf(comparison, {});
    const std::string name = is_hostile ? "hostile" : "example";
    io::WriteFileAtomically(folder / (name + ".json"), RenderJson(comparison, code));
    io::WriteFileAtomically(folder / (name + ".xml"), RenderJUnit(comparison, {}));
    io::WriteFileAtomically(folder / (name + ".md"), RenderMarkdown(comparison, code));
    io::WriteFileAtomically(folder / (name + ".html"), RenderPage(comparison, code));
    io::WriteFileAtomically(folder / (name + ".txt"), RenderTerminal(comparison, code, true));
    const reports::SweepReport run = ExampleRun(is_hostile ? "<&\"'\n\x1b\xff ]]>" : "gla");
    io::WriteFileAtomically(folder / (name + "-run.xml"),
                            reports::RenderCellsJUnit(std::array{run}));
  }
}

}  // namespace
}  // namespace mixerbench::gate

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_outputs FOLDER\n";
    return 2;
  }
  mixerbench::gate::WriteOutputs(argv[1]);
}
