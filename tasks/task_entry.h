// Entries of the registry of tasks, from the options of a task.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/fields.h"
#include "tasks/task.h"

namespace mixerbench::tasks {

// `entry` with what its options decide. `validate` throws ConfigError at `where` for the first rule
// that is broken; `complete` fills in what depends on other options, before that.
template <typename Params>
TaskEntry WithOptions(TaskEntry entry, const Fields<Params>& fields,
                      void (*validate)(const Params&, const std::string& where),
                      std::unique_ptr<Task> (*make)(const Params&),
                      Params (*complete)(Params) = nullptr) {
  const auto parse = [&fields, validate, complete](const Value& value, const std::string& where) {
    Params params = fields.Parse(value, where);
    if (complete != nullptr) params = complete(params);
    validate(params, where);
    return params;
  };
  entry.params = fields.Describe();
  entry.create = [parse, make](const Value& value, const std::string& where) {
    return make(parse(value, where));
  };
  entry.resolve = [&fields, parse](const Value& value, const std::string& where) {
    return fields.Write(parse(value, where));
  };
  return entry;
}

}  // namespace mixerbench::tasks
