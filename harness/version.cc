// SPDX-License-Identifier: Apache-2.0
#include "harness/version.h"

#include "harness/embedded.h"

namespace mixerbench::harness {

Value ToolVersion() {
#ifdef NDEBUG
  constexpr const char* kBuild = "opt";
#else
  constexpr const char* kBuild = "debug";
#endif
  return Object{{"version", kVersion},
                {"build", kBuild},
                {"compiler", __VERSION__},
                {"code", std::string(SharedCodeHash())}};
}

}  // namespace mixerbench::harness
