// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/collection.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "harness/suite/embedded.h"
#include "harness/suite/item_name.h"
#include "harness/suite/section_forms.h"
#include "harness/suite/suite.h"
#include "harness/suite/suite_text.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace mixerbench::harness {
namespace {

// A built-in suite by its name, a file from the folder of the collection's own.
std::string FindSuite(const std::string& suite, const std::filesystem::path& folder,
                      const std::string& where) {
  const std::vector<std::string> built_in = BuiltInSuiteNames();
  if (std::find(built_in.begin(), built_in.end(), suite) != built_in.end()) return suite;
  const std::string file = (folder / suite).string();
  if (!folder.empty() && std::filesystem::exists(file)) return file;
  throw ConfigError(where, UnknownName("suite", suite, built_in) +
                               (folder.empty() ? "" : ", nor is it a file beside the collection"));
}

CollectionItem ReadItem(const Value& value, const std::filesystem::path& folder,
                        const std::string& where) {
  CollectionItem item;
  const std::string& suite = value.Find("suite")->as_string();
  item.suite = FindSuite(suite, folder, where + "/suite");
  item.name = ReadFolderName(Value(NameOfItem(value)), where + "/name");
  item.set = {{"name", io::DumpJson(Value(item.name))}};
  if (const Value* set = value.Find("set")) {
    for (const auto& [path, setting] : set->as_object()) {
      if (path == "name") throw ConfigError(where + "/set/name", "is the item's own 'name'");
      item.set.emplace_back(path, io::DumpJson(setting));
    }
  }
  return item;
}

// The file's text and its folder, "" for a built-in one.
std::pair<std::string, std::filesystem::path> ReadText(const std::string& name_or_path) {
  for (const auto& [name, text] : EmbeddedCollections()) {
    if (name == name_or_path) return {std::string(text), {}};
  }
  const std::filesystem::path path = name_or_path;
  if (!std::filesystem::exists(path)) {
    throw ConfigError("", UnknownName("collection", name_or_path, BuiltInCollectionNames()) +
                              "; or give the path of a collection's file");
  }
  const auto folder = path.parent_path();
  return {io::ReadFile(name_or_path, io::JsonLimits{}.max_bytes), folder.empty() ? "." : folder};
}

}  // namespace

std::vector<std::string> BuiltInCollectionNames() {
  std::vector<std::string> names;
  for (const auto& [name, text] : EmbeddedCollections()) names.emplace_back(name);
  return names;
}

Collection ReadCollection(const std::string& name_or_path) {
  const auto [text, folder] = ReadText(name_or_path);
  Collection collection;
  collection.config = io::ParseJson(text);
  const Value& parsed = collection.config;
  CollectionForm().check(parsed, "");
  RequireSchemaVersion(parsed);
  collection.name = ReadFolderName(*parsed.Find("name"), "/name");
  if (const Value* description = parsed.Find("description")) {
    collection.description = description->as_string();
  }
  const Array& suites = parsed.Find("suites")->as_array();
  std::set<std::string> names;
  for (std::size_t i = 0; i < suites.size(); ++i) {
    const std::string where = "/suites/" + std::to_string(i);
    collection.items.push_back(ReadItem(suites[i], folder, where));
    const std::string& name = collection.items.back().name;
    if (!names.insert(name).second) {
      throw ConfigError(where, "two suites are called '" + name + "'; give one another 'name'");
    }
  }
  return collection;
}

SuiteOverrides OverridesOf(const CollectionItem& item, const SuiteOverrides& of_command) {
  SuiteOverrides overrides = of_command;
  overrides.set.insert(overrides.set.begin(), item.set.begin(), item.set.end());
  return overrides;
}

std::vector<Suite> ParseItems(const Collection& collection, const SuiteOverrides& of_command,
                              const Registries& registries) {
  for (const auto& [path, value] : of_command.set) {
    if (path != "name") continue;
    throw ConfigError("--set name", "the suites of a collection have the names that it gives them");
  }
  std::vector<Suite> suites;
  std::vector<std::string> faults;
  ExitCode code = ExitCode::kBadInput;
  for (const CollectionItem& item : collection.items) {
    try {
      suites.push_back(
          ParseSuite(ReadSuiteText(item.suite), OverridesOf(item, of_command), registries));
    } catch (const Error& error) {
      if (error.code() != ExitCode::kUsage && error.code() != ExitCode::kBadInput) throw;
      if (error.code() == ExitCode::kUsage) code = ExitCode::kUsage;
      const std::string file = item.suite == item.name ? "" : " (" + item.suite + ")";
      faults.push_back("suite '" + item.name + "'" + file + ": " + error.what());
    }
  }
  if (faults.empty()) return suites;
  std::string all = collection.name + ": ";
  if (faults.size() > 1) all += std::to_string(faults.size()) + " suites cannot be run";
  for (const std::string& fault : faults) all += (faults.size() > 1 ? "\n" : "") + fault;
  if (code == ExitCode::kUsage) throw ConfigError("", all);
  throw Error(code, all);
}

}  // namespace mixerbench::harness
