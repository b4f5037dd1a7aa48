// A page as Markdown: its sentences and tables. Figures are drawn in HTML only; their numbers stand
// in the tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reports/view/page.h"

namespace mixerbench::reports {

std::string RenderMarkdownPage(const Page& page);

}  // namespace mixerbench::reports
