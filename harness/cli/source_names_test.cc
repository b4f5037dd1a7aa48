// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/source_names.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("source names: that of the folder, with its parent's where several have it") {
  CHECK(SourceNames({"out/run", "other/report.json", "/dev/stdin"}) ==
        Names{"run", "other", "stdin"});
  CHECK(SourceNames({"a/run", "b/run", "c/other"}) == Names{"a/run", "b/run", "other"});
  CHECK(SourceNames({"a/run/report.json", "b/run"}) == Names{"a/run", "b/run"});
  CHECK(SourceNames({"x/a/run", "y/a/run", "b/run"}) == Names{"a/run (1)", "a/run (2)", "b/run"});
}

}  // namespace
}  // namespace mixerbench::harness
