// A page as one self-contained HTML file: no network, light and dark, phone and print, complete
// without its script. All text is escaped; the policy allows the one style and the one script by
// their hashes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reports/view/page.h"

namespace mixerbench::reports {

std::string RenderHtmlPage(const Page& page);

}  // namespace mixerbench::reports
