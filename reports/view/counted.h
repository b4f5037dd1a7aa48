// Our accuracy as a paper counts its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "reports/published/published.h"
#include "reports/view/page.h"
#include "reports/view/study.h"

namespace mixerbench::reports {

enum class CountedAs {
  kTokens,
  kWholeOutputs,  // sequences with every scored position right
  kMacro,         // mean recall over tokens, of batches of 128 sequences: MAD's
};

CountedAs HowCounted(const PublishedResult& result);

// "", "whole outputs", "mean over classes"
const char* CountedText(CountedAs counted);

// One accuracy over the seeds of a group, with its interval or its seeds; a seed that failed counts
// as chance, as in every table. Without a value where a seed that scored the segment has none.
Datum CountedDatum(const Study& study, const GroupSummary& group, std::size_t segment,
                   CountedAs counted);

}  // namespace mixerbench::reports
