// SPDX-License-Identifier: Apache-2.0
#include "io/json_position.h"

#include "tests/support/catch2.h"

namespace mixerbench::io {
namespace {

// "line:column", "" for nothing.
std::string Place(std::string_view json, std::string_view pointer) {
  const auto found = FindPosition(json, PointerSteps(pointer));
  return found ? std::to_string(found->line) + ":" + std::to_string(found->column) : "";
}

}  // namespace

TEST_CASE("position: members by their key, items by their value") {
  const std::string_view json = R"({"a": 1,
  "b": {"c]\"}": [10, {"d": -1.5e3}, [true, null]],
        "e/f~g": "x"
  }
})";
  CHECK(Place(json, "") == "1:1");
  CHECK(Place(json, "/a") == "1:2");
  CHECK(Place(json, "/b") == "2:3");
  CHECK(Place(json, "/b/c]\"}") == "2:9");
  CHECK(Place(json, "/b/c]\"}/0") == "2:19");
  CHECK(Place(json, "/b/c]\"}/1/d") == "2:24");
  CHECK(Place(json, "/b/c]\"}/2/1") == "2:45");
  CHECK(Place(json, "/b/e~1f~0g") == "3:9");
}

TEST_CASE("position: what is not there has none") {
  for (const char* pointer : {"/x", "/a/b", "/l/2", "/l/-1", "/l/x", "/o/x"}) {
    CHECK(Place(R"({"a": 1, "l": [1, 2], "o": {}, "e": []})", pointer).empty());
  }
  CHECK(Place("{", "/a").empty());
  CHECK(Place(R"({"a": )", "/a").empty());
}

TEST_CASE("position: a key that is written with escapes is found") {
  CHECK(Place("{\"\\u0061b\": 1, \"a\\\\\": 2}", "/ab") == "1:2");
  CHECK(Place("{\"\\u0061b\": 1, \"a\\\\\": 2}", "/a\\") == "1:16");
}

}  // namespace mixerbench::io
