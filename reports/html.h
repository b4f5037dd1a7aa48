// A sweep as one HTML page: no scripts, no fonts, nothing from elsewhere. It may be mailed,
// archived and opened in ten years. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reports/sweep_report.h"

namespace mixerbench::reports {

// The page depends on the report alone. Names and reasons are escaped; a content security policy
// forbids everything but the page's own style sheet.
std::string RenderHtml(const SweepReport& report);

}  // namespace mixerbench::reports
