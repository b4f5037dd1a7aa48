// Results that a reader should not take at their word.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "reports/view/mixer_list.h"
#include "reports/view/page.h"
#include "reports/view/study.h"

namespace mixerbench::reports {

// A sentence for each kind of doubt that some result of the studies gives: more right than can be
// known, fewer than guessing would, a train loss of nothing beside a test at chance, seeds that
// disagree widely where none or all are solved, mixers that answered the same. Only what chance
// explains less often than once in millions of cells is named.
std::vector<Sentence> DoubtsOf(const std::vector<Study>& studies, const MixerList& mixers);

}  // namespace mixerbench::reports
