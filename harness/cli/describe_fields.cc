// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/describe_fields.h"

#include <fmt/format.h>

#include "io/json.h"

namespace mixerbench::harness {

std::string NameAndText(const std::string& name, const std::string& text) {
  return fmt::format("{:<23} {}\n", name, text);
}

std::string FieldsToText(const std::vector<FieldInfo>& fields) {
  std::string text;
  for (const auto& field : fields) {
    text += fmt::format("  {:<21} {:<11} {} [{}]\n", field.name, io::DumpJson(field.default_value),
                        field.help, field.type);
  }
  return text;
}

Value FieldsToValue(const std::vector<FieldInfo>& fields) {
  Array array;
  for (const auto& field : fields) {
    array.emplace_back(Object{{"name", field.name},
                              {"type", field.type},
                              {"default", field.default_value},
                              {"help", field.help}});
  }
  return array;
}

}  // namespace mixerbench::harness
