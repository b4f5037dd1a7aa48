// write_outputs FOLDER: every output of a comparison whose names try to break out of it.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>

#include "gate/render/comparison_json.h"
#include "gate/render/comparison_page.h"
#include "gate/render/text_renderers.h"
#include "gate/testing/example_comparison.h"
#include "io/atomic_file.h"

int main(int argc, char** argv) {
  using namespace mixerbench;
  if (argc != 2) {
    std::cerr << "usage: write_outputs FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  for (const bool is_hostile : {false, true}) {
    const gate::Comparison comparison = gate::ExampleComparison(is_hostile);
    const ExitCode code = gate::CodeOf(comparison, {});
    const std::string name = is_hostile ? "hostile" : "example";
    io::WriteFileAtomically(folder / (name + ".json"), gate::RenderJson(comparison, code));
    io::WriteFileAtomically(folder / (name + ".xml"), gate::RenderJUnit(comparison, {}));
    io::WriteFileAtomically(folder / (name + ".md"), gate::RenderMarkdown(comparison, code));
    io::WriteFileAtomically(folder / (name + ".html"), gate::RenderPage(comparison, code));
    io::WriteFileAtomically(folder / (name + ".txt"), gate::RenderTerminal(comparison, code, true));
  }
}
