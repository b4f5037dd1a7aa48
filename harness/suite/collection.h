// Several suites as one: what is run and ranked together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "harness/suite/overrides.h"
#include "harness/suite/registries.h"
#include "harness/suite/suite.h"

namespace mixerbench::harness {

// A suite of a collection.
struct CollectionItem {
  std::string name;   // of its folder, and of the suite
  std::string suite;  // a built-in suite, or a file beside that of the collection
  io::Settings set;   // what differs from the suite's file
};

struct Collection {
  std::string name;
  std::string description;
  std::vector<CollectionItem> items;
  Value config;  // as given
};

std::vector<std::string> BuiltInCollectionNames();

// A built-in collection or a file, "x.json". Throws Error(kBadInput), and ConfigError with a JSON
// pointer for whatever is wrong; suites are read when they are run.
Collection ReadCollection(const std::string& name_or_path);

// What `item` is run with: its own settings, then those of the command line.
SuiteOverrides OverridesOf(const CollectionItem& item, const SuiteOverrides& of_command);

// The suites of all items, in their order. Throws one error with all that is wrong with any of
// them, each under the item's name and the file: a ConfigError, or Error(kBadInput) when all that
// is wrong are files that cannot be read.
std::vector<Suite> ParseItems(const Collection& collection, const SuiteOverrides& of_command,
                              const Registries& registries);

}  // namespace mixerbench::harness
