// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace mixerbench::reports {

// A relative path as a URL without anything that acts in HTML or Markdown: whatever is not a
// letter, digit, '/', '.', '-' or '_' is percent-encoded, so that no scheme is possible. Empty for
// paths from the root, which would leave the folder of the page.
std::string RelativeUrl(std::string_view path);

}  // namespace mixerbench::reports
