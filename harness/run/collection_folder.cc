// SPDX-License-Identifier: Apache-2.0
#include "harness/run/collection_folder.h"

#include "base/error.h"
#include "harness/suite/item_name.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace mixerbench::harness {

namespace fs = std::filesystem;

bool IsCollection(const fs::path& out) { return fs::exists(out / kCollectionFile); }

std::vector<std::string> SuiteNamesOf(const fs::path& out) {
  const std::string file = (out / kCollectionFile).string();
  try {
    const Value collection = io::ParseJson(io::ReadFile(file, io::JsonLimits{}.max_bytes));
    const Value* suites = collection.Find("suites");
    if (suites == nullptr || !suites->is_array()) throw ConfigError("/suites", "expected a list");
    std::vector<std::string> names;
    for (const Value& item : suites->as_array()) {
      names.push_back(NameOfItem(item));
      if (names.back().empty()) {
        throw ConfigError("/suites/" + std::to_string(names.size() - 1), "has no name");
      }
    }
    return names;
  } catch (const ConfigError& error) {
    throw Error(ExitCode::kBadInput, file + ": " + error.what());
  }
}

}  // namespace mixerbench::harness
