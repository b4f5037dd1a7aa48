// SPDX-License-Identifier: Apache-2.0
#include "reports/export/csv_fields.h"

#include <algorithm>
#include <cmath>

#include "io/json.h"
#include "io/text.h"

namespace mixerbench::reports {

std::string Number(std::optional<double> value) {
  return value && std::isfinite(*value) ? io::DumpJson(*value) : "";
}

std::string Integer(std::optional<std::int64_t> value) {
  return value ? std::to_string(*value) : "";
}

std::string Truth(std::optional<bool> value) { return !value ? "" : *value ? "true" : "false"; }

std::string Member(const Object& object, const std::string& name) {
  const auto found = object.find(name);
  if (found == object.end() || found->second.is_null()) return "";
  const Value& value = found->second;
  if (value.is_number()) return io::DumpJson(value);
  return io::CsvField(io::ValueText(value));
}

std::vector<std::string> AxisColumns(const std::set<std::string>& axes,
                                     const std::vector<std::string>& taken) {
  std::vector<std::string> columns;
  for (const std::string& axis : axes) {
    const bool is_taken = std::find(taken.begin(), taken.end(), axis) != taken.end();
    columns.push_back(io::CsvField(is_taken ? "axis." + axis : axis));
  }
  return columns;
}

std::string Line(const std::vector<std::string>& fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) line += (i == 0 ? "" : ",") + fields[i];
  return line + "\n";
}

}  // namespace mixerbench::reports
