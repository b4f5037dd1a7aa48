// How this program was compiled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/value.h"

namespace mixerbench::harness::cli {

// {"assertions", "cuda", "cxx_standard", "sanitizer"}: whether assert() is checked, whether there
// is device code, as __cplusplus, and whether memory errors are looked for.
Value BuildFlags();

}  // namespace mixerbench::harness::cli
