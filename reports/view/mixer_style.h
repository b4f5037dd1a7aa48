// How mixers are called and drawn: hue tells the family, the marker the member, and a hybrid is
// dashed and hollow in the colour of its main part.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/value.h"
#include "reports/view/page.h"

namespace mixerbench::reports {

// Of a cell: `named` is the mixer's part of its name, `model` its resolved "model". A name that
// does not begin with the mixer's own is a label that the suite gave.
MixerStyle StyleOf(const std::string& named, const Value& model);

// "gla" -> "GLA"; a name that is not known as it is.
std::string MixerLabel(const std::string& name);

}  // namespace mixerbench::reports
