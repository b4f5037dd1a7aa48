// A comparison as a page: the verdict first, then every row that is not a pass, then the evidence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gate/verdict/comparison.h"
#include "reports/view/page.h"

namespace mixerbench::gate {

reports::Page ComparisonPage(const Comparison& comparison, ExitCode code);

// One self-contained HTML file.
std::string RenderPage(const Comparison& comparison, ExitCode code);

}  // namespace mixerbench::gate
