// SPDX-License-Identifier: Apache-2.0
#include "io/value_path.h"

#include "tests/support/catch2.h"

namespace mixerbench::io {
namespace {

TEST_CASE("value path: a path leads through objects to a value, or nowhere") {
  const Object document = {{"train", Object{{"lr", 0.5}}}, {"seeds", Array{1}}};
  REQUIRE(FindPath(document, "train.lr"));
  CHECK(*FindPath(document, "train.lr") == Value(0.5));
  CHECK(FindPath(document, "train")->is_object());
  for (const char* path : {"lr", "train.dtype", "train.lr.x", "seeds.0"}) {
    CAPTURE(path);
    CHECK(FindPath(document, path) == nullptr);
  }
}

TEST_CASE("value path: a string, empty where there is another value or none") {
  const Value document = Object{{"name", "gla"}, {"gpu", Object{{"name", "H200"}, {"index", 0}}}};
  CHECK(StringAt(document, "name") == "gla");
  CHECK(StringAt(document, "gpu.name") == "H200");
  for (const char* path : {"gpu", "gpu.index", "cpu.name", "name.x"}) {
    CAPTURE(path);
    CHECK(StringAt(document, path).empty());
  }
  CHECK(StringAt(Value(), "name").empty());
  CHECK(StringAt("name", "name").empty());
}

}  // namespace
}  // namespace mixerbench::io
