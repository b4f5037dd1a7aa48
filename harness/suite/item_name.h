// What a suite of a collection is called. Without libtorch: whoever reads results asks too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/value.h"

namespace mixerbench::harness {

// Of an entry of a collection's `suites`: its own name, else that of its suite. "" for what is no
// such entry.
std::string NameOfItem(const Value& item);

}  // namespace mixerbench::harness
