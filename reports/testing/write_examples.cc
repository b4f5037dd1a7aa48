// Writes the examples of schema_examples.h for schema_crosscheck.sh, and the page, the tables and
// the leaderboard of a made-up sweep, to be looked at after a change of style: write_examples
// FOLDER [REPORT.json]... The pages of the reports are numbered: FOLDER/report-1.html, ...
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <filesystem>

#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/export/accuracy_csv.h"
#include "reports/leaderboard/leaderboard.h"
#include "reports/render/html_page.h"
#include "reports/render/markdown_page.h"
#include "reports/testing/schema_examples.h"
#include "reports/testing/test_cells.h"
#include "reports/view/report_page.h"

int main(int argc, char** argv) {
  namespace io = mixerbench::io;
  namespace reports = mixerbench::reports;
  if (argc < 2) {
    std::fputs("usage: write_examples FOLDER [REPORT.json]...\n", stderr);
    return 2;
  }
  try {
    for (const auto& example : reports::SchemaExamples()) {
      const auto folder =
          std::filesystem::path(argv[1]) / example.kind / (example.is_valid ? "valid" : "invalid");
      std::filesystem::create_directories(folder);
      io::WriteFileAtomically(folder / (example.name + ".json"), io::DumpJson(example.document, 2));
    }
    const std::filesystem::path folder(argv[1]);
    const auto sweep = reports::MakeSweepReport("mqar-length", {}, reports::ExampleSweep());
    const reports::Page page = reports::MakeReportPage(sweep);
    io::WriteFileAtomically(folder / "page.html", reports::RenderHtmlPage(page));
    io::WriteFileAtomically(folder / "page.md", reports::RenderMarkdownPage(page));
    io::WriteFileAtomically(folder / "accuracy.csv", reports::RenderAccuracyCsv(sweep));
    const auto ranked = reports::MakeLeaderboard(
        {{"mqar-length", reports::MakeSweepReport("mqar-length", {}, reports::ExampleSweep(5)),
          "mqar-length/report.html"}},
        5);
    io::WriteFileAtomically(folder / "leaderboard.html",
                            reports::RenderHtmlPage(reports::MakeLeaderboardPage(ranked)));
    for (int i = 2; i < argc; ++i) {
      const auto report = reports::ParseSweep(io::ReadFile(argv[i]), argv[i]);
      io::WriteFileAtomically(folder / ("report-" + std::to_string(i - 1) + ".html"),
                              reports::RenderHtmlPage(reports::MakeReportPage(report)));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
