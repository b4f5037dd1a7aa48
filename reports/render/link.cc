// SPDX-License-Identifier: Apache-2.0
#include "reports/render/link.h"

#include <fmt/format.h>

namespace mixerbench::reports {

std::string RelativeUrl(std::string_view path) {
  if (path.starts_with('/')) return "";
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/.-_";
  std::string url;
  for (const char c : path) {
    if (kPlain.find(c) != std::string_view::npos) {
      url += c;
    } else {
      url += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return url;
}

}  // namespace mixerbench::reports
