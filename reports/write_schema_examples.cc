// Writes the examples of schema_examples.h for schema_crosscheck.py, and the example page and
// tables for reading: write_schema_examples FOLDER. SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <filesystem>

#include "reports/atomic_file.h"
#include "reports/csv.h"
#include "reports/html.h"
#include "reports/json.h"
#include "reports/markdown.h"
#include "reports/schema_examples.h"
#include "reports/test_cells.h"

int main(int argc, char** argv) {
  namespace reports = mixerbench::reports;
  if (argc != 2) {
    std::fputs("usage: write_schema_examples FOLDER\n", stderr);
    return 2;
  }
  try {
    for (const auto& example : reports::SchemaExamples()) {
      const auto folder = std::filesystem::path(argv[1]) / (example.is_report ? "report" : "cell") /
                          (example.is_valid ? "valid" : "invalid");
      std::filesystem::create_directories(folder);
      reports::WriteFileAtomically(folder / (example.name + ".json"),
                                   reports::DumpJson(example.document, 2));
    }
    const std::filesystem::path folder(argv[1]);
    const auto sweep = reports::MakeSweepReport("mqar-length", {}, reports::ExampleSweep());
    reports::WriteFileAtomically(folder / "page.html", reports::RenderHtml(sweep));
    reports::WriteFileAtomically(folder / "page.md", reports::RenderMarkdown(sweep));
    reports::WriteFileAtomically(folder / "accuracy.csv", reports::RenderAccuracyCsv(sweep));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
