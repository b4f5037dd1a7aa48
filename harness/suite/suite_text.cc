// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/suite_text.h"

#include <filesystem>

#include "base/error.h"
#include "base/suggest.h"
#include "harness/suite/embedded.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace mixerbench::harness {

std::string ReadSuiteText(const std::string& name_or_path) {
  for (const auto& [name, text] : EmbeddedSuites()) {
    if (name == name_or_path) return std::string(text);
  }
  const bool looks_like_name =
      name_or_path.find('/') == std::string::npos && name_or_path.find('.') == std::string::npos;
  if (looks_like_name && !std::filesystem::exists(name_or_path)) {
    throw ConfigError("", UnknownName("suite", name_or_path, BuiltInSuiteNames()) +
                              "; or give the path of a suite file");
  }
  return io::ReadFile(name_or_path, io::JsonLimits{}.max_bytes);
}

std::vector<std::string> BuiltInSuiteNames() {
  std::vector<std::string> names;
  for (const auto& [name, text] : EmbeddedSuites()) names.emplace_back(name);
  return names;
}

}  // namespace mixerbench::harness
