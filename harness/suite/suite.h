// From a suite file to cells.
//
// A suite names one task with its train, validation and test segments, one model, one way of
// training, and what is swept. Every cell is one point of the sweep with one seed, resolved: all
// defaults spelt out, all names checked, before anything runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "harness/suite/cell.h"
#include "harness/suite/overrides.h"
#include "harness/suite/registries.h"

namespace mixerbench::harness {

struct Suite {
  std::string name;
  std::string description;
  Value config;  // as given, after --set
  std::vector<Cell> cells;
};

// Of suites and collections alike, both throw ConfigError: "/schema_version", if there is one, is
// 1.x; `value` is a name that may become a folder's.
void RequireSchemaVersion(const Value& document);
std::string ReadFolderName(const Value& value, const std::string& where);

// A suite's "/model" with every default spelt out. Throws ConfigError.
Value ResolveModel(const Value& model, const Registries& registries);

// Throws ConfigError for anything wrong, before any work: all of it, each with its JSON pointer,
// line and column (config_errors.h).
Suite ParseSuite(std::string_view text, const SuiteOverrides& overrides,
                 const Registries& registries);

}  // namespace mixerbench::harness
