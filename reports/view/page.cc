// SPDX-License-Identifier: Apache-2.0
#include "reports/view/page.h"

#include <fmt/format.h>

#include "reports/view/numbers.h"

namespace mixerbench::reports {

std::string LeftOutText(const Table& table) {
  if (table.num_left_out == 0) return "";
  return "The first " + Count(static_cast<double>(table.rows.size())) + " of " +
         Count(static_cast<double>(table.num_rows())) + " rows; report.json and CSV have all.";
}

std::string NoteOf(const Table& table) {
  const std::string left_out = LeftOutText(table);
  return table.note + (table.note.empty() || left_out.empty() ? "" : " ") + left_out;
}

void NumberBlocks(Page& page) {
  int num_tables = 0;
  int num_figures = 0;
  for (Section& section : page.sections) {
    for (Block& block : section.blocks) {
      if (auto* table = std::get_if<Table>(&block)) {
        if (table->title.empty()) continue;
        table->title = fmt::format("Table {}. {}", ++num_tables, table->title);
        if (table->key.empty()) table->key = fmt::format("t{}", num_tables);
      } else if (auto* figure = std::get_if<Figure>(&block)) {
        figure->title = fmt::format("Figure {}. {}", ++num_figures, figure->title);
      } else if (auto* heats = std::get_if<HeatFigure>(&block)) {
        heats->title = fmt::format("Figure {}. {}", ++num_figures, heats->title);
      }
    }
  }
}

}  // namespace mixerbench::reports
