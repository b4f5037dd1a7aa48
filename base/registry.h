// Named units (tasks, cores, mixers, backbones). A registry is a value: built in `main` from the
// generated lists of folders and passed by reference; there is no global one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace mixerbench {

template <typename Entry>
class Registry {
 public:
  // `kind` is the word used in messages: "mixer", "task", ...
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  // Throws std::logic_error when the name is taken: two folders may not claim one name.
  void Add(const std::string& name, Entry entry) {
    if (!entries_.emplace(name, std::move(entry)).second) {
      throw std::logic_error(kind_ + " '" + name + "' registered twice");
    }
  }

  // Throws ConfigError at `where` that lists the known names.
  const Entry& Find(std::string_view name, std::string_view where) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) throw ConfigError(where, UnknownName(kind_, name, Names()));
    return found->second;
  }

  bool Contains(std::string_view name) const { return entries_.find(name) != entries_.end(); }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }

  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }

 private:
  std::string kind_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace mixerbench
