// render_report FILE html|md: a report.json as a person reads it, without the rest of the program.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <string>

#include "io/atomic_file.h"
#include "reports/render/html_page.h"
#include "reports/render/markdown_page.h"
#include "reports/summary/sweep_report.h"
#include "reports/view/report_page.h"

int main(int argc, char** argv) {
  namespace reports = mixerbench::reports;
  namespace io = mixerbench::io;
  if (argc != 3) {
    std::cerr << "usage: render_report FILE html|md\n";
    return 2;
  }
  const reports::Page page =
      reports::MakeReportPage(reports::ParseSweep(io::ReadFile(argv[1]), argv[1]));
  std::cout << (std::string(argv[2]) == "md" ? reports::RenderMarkdownPage(page)
                                             : reports::RenderHtmlPage(page));
  return 0;
}
