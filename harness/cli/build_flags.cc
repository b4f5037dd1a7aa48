// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/build_flags.h"

namespace mixerbench::harness::cli {

Value BuildFlags() {
#ifdef NDEBUG
  constexpr bool kAssertions = false;
#else
  constexpr bool kAssertions = true;
#endif
#ifdef MIXERBENCH_WITH_CUDA
  constexpr bool kCuda = true;
#else
  constexpr bool kCuda = false;
#endif
#ifdef __SANITIZE_ADDRESS__
  constexpr bool kSanitizer = true;
#else
  constexpr bool kSanitizer = false;
#endif
  return Object{{"assertions", kAssertions},
                {"cuda", kCuda},
                {"cxx_standard", static_cast<std::int64_t>(__cplusplus)},
                {"sanitizer", kSanitizer}};
}

}  // namespace mixerbench::harness::cli
