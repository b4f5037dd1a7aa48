// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/swept_axes.h"

namespace mixerbench::harness {

std::vector<SweptAxes> SweptAxesOf(Object& document) {
  std::vector<SweptAxes> all;
  const auto add = [&all](Value& axes, bool is_zip) {
    if (axes.is_object()) all.push_back({&axes.as_object(), is_zip});
  };
  const auto sweep = document.find("sweep");
  if (sweep == document.end() || !sweep->second.is_object()) return all;
  Object& kinds = sweep->second.as_object();
  if (const auto grid = kinds.find("grid"); grid != kinds.end()) add(grid->second, false);
  if (const auto zip = kinds.find("zip"); zip != kinds.end()) {
    add(zip->second, true);
    if (zip->second.is_array()) {
      for (Value& axes : zip->second.as_array()) add(axes, true);
    }
  }
  return all;
}

}  // namespace mixerbench::harness
