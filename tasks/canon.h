// Canonical strings that name a task with its sampling parameters: the text behind every key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace mixerbench::tasks {

// The shortest plain decimal that reads back as the same double: "0.01", "3", "0.00001".
std::string FormatReal(double value);

// Builds "mqar;L=64;kv=4;passes=1": the task, then every sampling parameter in byte order.
// The names are the short ones of the tasks' documents and never change, whatever options are
// called.
class Canon {
 public:
  explicit Canon(std::string_view task) : task_(task) {}

  Canon& Integer(std::string_view name, std::int64_t value);
  Canon& Flag(std::string_view name, bool value);
  Canon& Real(std::string_view name, double value);
  Canon& Word(std::string_view name, std::string_view value);

  std::string Text() const;

 private:
  std::string task_;
  std::map<std::string, std::string, std::less<>> parameters_;
};

}  // namespace mixerbench::tasks
