// SPDX-License-Identifier: Apache-2.0
#include "io/form.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/suggest.h"
#include "io/read_value.h"

namespace mixerbench::io {

Form AnyForm() {
  return {.schema = Object{}, .check = [](const Value&, const std::string&) {}};
}

Form TextForm() { return {.schema = Object{{"type", "string"}}, .check = ReadName}; }

Form ObjectForm() { return {.schema = Object{{"type", "object"}}, .check = RequireObject}; }

Form IntegerForm(std::int64_t least, std::int64_t most) {
  Object schema = {{"type", "integer"}, {"minimum", least}};
  if (most < std::numeric_limits<std::int64_t>::max()) schema["maximum"] = most;
  return {.schema = std::move(schema), .check = [=](const Value& value, const std::string& where) {
            if (ReadInt(value, where, least) <= most) return;
            throw ConfigError(where,
                              "must be in " + std::to_string(least) + ".." + std::to_string(most));
          }};
}

Form OneOfForm(std::string kind, std::vector<std::string> names) {
  return {.schema = Object{{"enum", Array(names.begin(), names.end())}},
          .check = [kind = std::move(kind), names = std::move(names)](const Value& value,
                                                                      const std::string& where) {
            const std::string name = ReadName(value, where);
            if (std::find(names.begin(), names.end(), name) != names.end()) return;
            throw ConfigError(where, UnknownName(kind, name, names));
          }};
}

Form ListForm(Form item, std::string expected) {
  return {.schema = Object{{"type", "array"}, {"items", item.schema}, {"minItems", 1}},
          .check = [item = std::move(item), expected = std::move(expected)](
                       const Value& value, const std::string& where) {
            if (!value.is_array() || value.as_array().empty()) {
              throw ConfigError(where, "expected " + expected);
            }
            const Array& items = value.as_array();
            for (std::size_t i = 0; i < items.size(); ++i) {
              item.check(items[i], where + "/" + std::to_string(i));
            }
          }};
}

Form DistinctListForm(Form item, std::string expected) {
  Form list = ListForm(std::move(item), std::move(expected));
  list.schema.as_object()["uniqueItems"] = true;
  return {.schema = std::move(list.schema),
          .check = [check = std::move(list.check)](const Value& value, const std::string& where) {
            check(value, where);
            const Array& items = value.as_array();
            for (auto at = items.begin(); at != items.end(); ++at) {
              if (std::find(items.begin(), at, *at) == at) continue;
              throw ConfigError(where + "/" + std::to_string(at - items.begin()),
                                "stands there already");
            }
          }};
}

Form ClosedForm(std::vector<Member> members) {
  Object properties;
  Array required;
  std::vector<std::string> known;
  for (const Member& member : members) {
    Value schema = member.form.schema;
    if (!member.help.empty()) schema.as_object()["description"] = member.help;
    properties[member.name] = std::move(schema);
    if (member.is_required) required.emplace_back(member.name);
    known.push_back(member.name);
  }
  Object schema = {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = std::move(required);
  return {.schema = std::move(schema),
          .check = [members = std::move(members), known = std::move(known)](
                       const Value& value, const std::string& where) {
            RequireKnownKeys(value, where, known);
            for (const Member& member : members) {
              if (member.is_required) RequireMember(value, where, member.name);
              if (const Value* item = value.Find(member.name)) {
                member.form.check(*item, where + "/" + member.name);
              }
            }
          }};
}

}  // namespace mixerbench::io
