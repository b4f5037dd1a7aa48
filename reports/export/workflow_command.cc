// SPDX-License-Identifier: Apache-2.0
#include "reports/export/workflow_command.h"

#include <fmt/format.h>

#include "io/text.h"

namespace mixerbench::reports {
namespace {

// Workflow commands end at a line end and take % as an escape.
std::string Escaped(std::string_view text, bool is_property) {
  std::string out;
  for (const char c : io::PlainLine(text)) {
    if (c == '%') {
      out += "%25";
    } else if (is_property && c == ':') {
      out += "%3A";
    } else if (is_property && c == ',') {
      out += "%2C";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string Annotation(std::string_view level, std::string_view title, std::string_view text) {
  return fmt::format("::{} title={}::{}\n", level, Escaped(title, true), Escaped(text, false));
}

}  // namespace mixerbench::reports
