// SPDX-License-Identifier: Apache-2.0
#include "reports/view/page.h"

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

}  // namespace mixerbench::reports
