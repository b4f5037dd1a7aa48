// Short texts of swept values, which name the cells of a sweep.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/value.h"

namespace mixerbench::harness {

// A mixer's name and options, the items of a list joined by "+" (in brackets where they are joined
// themselves), a number, else canonical JSON.
std::string AxisText(const Value& value);

// Of the values of one axis. A class in Python is named by itself, and after its file where
// another file has a class of its name: "a.Mine" and "b.Mine". Different values have different
// texts: the second of one text is "1 #2".
std::vector<std::string> AxisTexts(const Array& values);

}  // namespace mixerbench::harness
