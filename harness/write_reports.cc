// SPDX-License-Identifier: Apache-2.0
#include "harness/write_reports.h"

#include "reports/atomic_file.h"
#include "reports/html.h"
#include "reports/markdown.h"
#include "reports/sweep_report.h"

namespace mixerbench::harness {
void WriteReports(const std::filesystem::path& out, const std::string& name, const Value& config,
                  const std::vector<reports::CellResult>& cells) {
  const auto report = reports::MakeSweepReport(name, config, cells);
  reports::WriteFileAtomically(out / "report.json", reports::DumpSweep(report));
  reports::WriteFileAtomically(out / "report.md", reports::RenderMarkdown(report));
  reports::WriteFileAtomically(out / "report.html", reports::RenderHtml(report));
}

}  // namespace mixerbench::harness
