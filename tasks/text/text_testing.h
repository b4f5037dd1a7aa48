// What tests of text tasks share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tasks/text/text_task.h"

namespace mixerbench::tasks {

// The registry entry of the unit under test, made by its Register.
template <typename Register>
TaskEntry EntryOf(const Register& register_unit, const std::string& name) {
  TaskRegistry registry("task");
  register_unit(registry);
  return registry.Find(name, "");
}

inline PromptRecord MakeRecord(const TaskEntry& entry, const Object& options,
                               std::uint64_t index = 0) {
  const auto task = entry.create(options, "");
  return task->text()->MakePrompt({DeriveKey(task->canon(), 1, 2), index});
}

// The message that creating a task with these options ends with, or "".
inline std::string RejectionOf(const TaskEntry& entry, const Object& options) {
  try {
    entry.create(options, "/task");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// Occurrences of `part` in `text`.
inline std::int64_t CountOf(std::string_view text, std::string_view part) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace mixerbench::tasks
