// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/item_name.h"

#include <filesystem>

#include "io/value_path.h"

namespace mixerbench::harness {

std::string NameOfItem(const Value& item) {
  if (!item.is_object()) return "";
  if (item.Find("name") != nullptr) return io::StringAt(item, "name");
  return std::filesystem::path(io::StringAt(item, "suite")).stem().string();
}

}  // namespace mixerbench::harness
