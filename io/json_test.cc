// SPDX-License-Identifier: Apache-2.0
#include "io/json.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"

#include "tests/support/catch2.h"

namespace mixerbench::io {
namespace {

std::string Failure(std::string_view text, const JsonLimits& limits = {}) {
  try {
    ParseJson(text, limits);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

std::string Nested(int depth) {
  const auto n = static_cast<std::size_t>(depth);
  return std::string(n, '[') + std::string(n, ']');
}

TEST_CASE("json: reads every kind of value and keeps integers and doubles apart") {
  const Value v = ParseJson(R"({"a":[null,true,-3,2.0,"x\u00e9\n"],"b":{}})");
  CHECK(v == Value(Object{{"a", Array{Value(), true, -3, 2.0, "x\xC3\xA9\n"}}, {"b", Object{}}}));
  CHECK(v.Find("a")->as_array()[2].is_int());
  CHECK(v.Find("a")->as_array()[3].is_double());
  CHECK(ParseJson("9223372036854775807").as_int() == INT64_MAX);
  CHECK(ParseJson("-9223372036854775808").as_int() == INT64_MIN);
}

TEST_CASE("json: syntax errors name line and column") {
  CHECK_THAT(Failure("{\n  \"a\": 1,\n  \"b\" 2\n}"), Catch::StartsWith("line 3, column 7: "));
  CHECK_THAT(Failure(""), Catch::StartsWith("line 1, column 1: "));
  CHECK_THAT(Failure("[1,]"), Catch::StartsWith("line 1, column 4: "));
  for (const char* bad : {"[1] x", "{'a':1}", "[01]", "[+1]", "[.5]", "[1.]", "NaN", "[Infinity]",
                          "\"\\x\"", "\"a\nb\"", "// c\n1", "[1", "tru", "\"\\ud800\""}) {
    CAPTURE(bad);
    CHECK_THAT(Failure(bad), Catch::StartsWith("line "));
  }
}

TEST_CASE("json: bytes that an editor does not show are refused with their place") {
  CHECK_THAT(Failure("\xEF\xBB\xBF{}"), Catch::StartsWith("line 1, column 1: a byte order mark"));
  CHECK(Failure(std::string_view("{}\n\0", 4)) == "line 2, column 1: a NUL byte, which is no JSON");
  CHECK_THAT(Failure(std::string_view("{}\0 junk", 8)), Catch::Contains("column 3: a NUL byte"));
}

TEST_CASE("json: bad UTF-8 is refused on reading and replaced on writing") {
  for (const char* bad :
       {"\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\""}) {
    CHECK_THAT(Failure(bad), Catch::StartsWith("line "));
    const std::string written = DumpJson(Value(std::string(bad + 1, std::strlen(bad) - 2)));
    CHECK_THAT(written, Catch::Contains("\xEF\xBF\xBD"));
    CHECK(DumpJson(ParseJson(written)) == written);
  }
  CHECK(ValidUtf8("\xE2\x82\xAC \xF0\x9F\x98\x80") == "\xE2\x82\xAC \xF0\x9F\x98\x80");
}

TEST_CASE("json: values that a library accepts quietly are refused with a pointer") {
  CHECK(Failure(R"({"a":{"x~/y":1,"x~/y":2}})") == "/a/x~0~1y: duplicate key, line 1, column 21");
  CHECK(Failure("{\n  \"a\": 1,\n  \"a\": 2\n}") == "/a: duplicate key, line 3, column 5");
  CHECK(Failure(R"({"a":[0,9223372036854775808]})") ==
        "/a/1: integer 9223372036854775808 does not fit in 64 bits; write it as a string");
  CHECK_THAT(Failure("-9223372036854775809"), Catch::Contains("does not fit"));
  CHECK_THAT(Failure("123456789012345678901234567890"), Catch::Contains("does not fit"));
  CHECK_THAT(Failure("[1e999]"), Catch::Contains("out of the range of a double"));
}

TEST_CASE("json: depth, number of values and size are bounded") {
  CHECK(Failure(Nested(64)) == "accepted");
  CHECK_THAT(Failure(Nested(65)), Catch::EndsWith("nested deeper than 64 levels"));
  CHECK_THAT(Failure(std::string(1'000'000, '[')), Catch::Contains("nested deeper"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  CHECK_THAT(Failure(objects), Catch::Contains("nested deeper"));
  CHECK(Failure("[1,2,3]", {.max_nodes = 4}) == "accepted");
  CHECK(Failure("[1,2,3]", {.max_nodes = 3}) == "/2: more than 3 values");
  CHECK(Failure("[1,2,3]", {.max_bytes = 7}) == "accepted");
  CHECK(Failure("[1,2,3]", {.max_bytes = 6}) == "7 bytes of JSON; the limit is 6");
}

TEST_CASE("json: elements of one array are taken as they are read") {
  std::vector<std::string> taken;
  const auto take = [&](const Value& element, std::size_t index) {
    taken.push_back(std::to_string(index) + " " + DumpJson(element));
    return Value(static_cast<std::int64_t>(index));
  };
  const Value left =
      ParseJson(R"({"a":[{"cells":[{"x":0}]}],"cells":[{"x":[{}]},7,[]],"z":{"cells":[{}]}})", {},
                {"cells", take});
  CHECK(taken == std::vector<std::string>{R"(0 {"x":[{}]})", "2 []"});
  CHECK(DumpJson(left) == R"({"a":[{"cells":[{"x":0}]}],"cells":[0,7,2],"z":{"cells":[{}]}})");
}

TEST_CASE("json: text is canonical") {
  const Value v = Object{{"b", Array{1, 0.1, 1.0, 1e-5, 1e22, -0.0}}, {"a", "\"\\\x01\n"}};
  CHECK(DumpJson(v) == R"({"a":"\"\\\u0001\n","b":[1,0.1,1.0,1e-05,1e+22,-0.0]})");
  CHECK(DumpJson(Object{{"a", Array{1, Object{}}}, {"b", Array{}}}, 2) ==
        "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}\n");
  CHECK_THROWS_AS(DumpJson(Array{std::nan("")}), std::logic_error);
  CHECK_THROWS_AS(DumpJson(std::numeric_limits<double>::infinity()), std::logic_error);
}

TEST_CASE("json: the text of a value has no quotes around a string") {
  CHECK(ValueText("\"gla\" \\ é") == "\"gla\" \\ é");
  CHECK(ValueText("") == "");
  CHECK(ValueText("64") == ValueText(64));
  CHECK(ValueText(1.0) == "1.0");
  CHECK(ValueText(true) == "true");
  CHECK(ValueText(Value()) == "null");
  CHECK(ValueText(Array{"gla", Object{{"a", 1}}}) == R"(["gla",{"a":1}])");
}

TEST_CASE("json: every finite double survives a round trip bit for bit") {
  std::uint64_t bits = GENERATE(range(1, 20)) * 0x9E3779B97F4A7C15ull;
  for (int i = 0; i < 2000; ++i) {
    bits = bits * 6364136223846793005ull + 1442695040888963407ull;
    const auto v = std::bit_cast<double>(bits);
    if (!std::isfinite(v)) continue;
    const Value back = ParseJson(DumpJson(v));
    REQUIRE(back.is_double());
    const double read = back.as_double();
    CAPTURE(bits);
    REQUIRE(std::bit_cast<std::uint64_t>(read) == bits);
  }
}

// A valid document changed at one byte is read or refused, never anything else; what is read
// survives another round trip.
TEST_CASE("json: flipped and cut documents never crash") {
  const std::string good = R"({"a":[1,2.5e3,"x\u00e9\n",null,true],"b":{"c":{},"d":[[]]}})";
  for (std::size_t i = 0; i < good.size(); ++i) {
    CHECK(Failure(good.substr(0, i)) != "accepted");
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      if (Failure(bad) != "accepted") continue;
      const std::string text = DumpJson(ParseJson(bad));
      CHECK(DumpJson(ParseJson(text)) == text);
    }
  }
}

}  // namespace
}  // namespace mixerbench::io
