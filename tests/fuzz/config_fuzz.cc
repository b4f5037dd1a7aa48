// Configurations: the options of every task, and --set. The input is lines; the first one names a
// task, the second one is a setting "path=value", the rest is a JSON object of options.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "harness/suite/setting.h"
#include "io/json.h"
#include "tasks/task.h"
#include "tests/fuzz/fuzz_target.h"

namespace mixerbench {
namespace {

std::string_view TakeLine(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

const tasks::TaskRegistry& AllTasks() {
  static const tasks::TaskRegistry registry = [] {
    tasks::TaskRegistry all("task");
    tasks::RegisterTasks(all);
    return all;
  }();
  return registry;
}

void Configure(std::string_view text) {
  const std::string_view task = TakeLine(text);
  const std::string_view setting = TakeLine(text);
  const Value options = io::ParseJson(text);
  const tasks::TaskEntry& entry = AllTasks().Find(task, "/task");
  const Value resolved = entry.resolve(options, "/task");
  fuzz::Demand(entry.resolve(resolved, "/task") == resolved);
  Object document = resolved.as_object();
  const std::size_t equals = std::min(setting.find('='), setting.size());
  harness::ApplySetting(document, std::string(setting.substr(0, equals)),
                        setting.substr(std::min(equals + 1, setting.size())));
  entry.resolve(document, "/task");
}

}  // namespace
}  // namespace mixerbench

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mixerbench;  // NOLINT(google-build-using-namespace)
  fuzz::Try([&] { Configure(fuzz::Bytes(data, size)); });
  return 0;
}
