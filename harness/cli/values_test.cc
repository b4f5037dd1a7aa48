// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/values.h"

#include <map>
#include <string>

#include "base/error.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness::cli {
namespace {

using Seeds = std::vector<std::uint64_t>;

TEST_CASE("seeds: a number counts from 0, a list names them") {
  CHECK(ParseSeeds("").empty());
  CHECK(ParseSeeds("3") == Seeds{0, 1, 2});
  CHECK(ParseSeeds("777,") == Seeds{777});
  CHECK(ParseSeeds("1,2,7") == Seeds{1, 2, 7});
  CHECK(ParseSeeds("100").size() == 100);
}

TEST_CASE("seeds: too many, none and repeated ones are refused") {
  CHECK_THROWS_WITH(ParseSeeds("777"), Catch::Contains("write --seeds 777,"));
  CHECK_THROWS_WITH(ParseSeeds("0"), Catch::Contains("must be in 1..100"));
  CHECK_THROWS_WITH(ParseSeeds(","), Catch::Contains("names no seed"));
  CHECK_THROWS_WITH(ParseSeeds("1,2,1"), "--seeds: seed 1 stands there twice");
  CHECK_THROWS_WITH(ParseSeeds("-1"), Catch::Contains("expected a whole number"));
  CHECK_THROWS_WITH(ParseSeeds(std::string(300, '9')),
                    "--seeds: expected a whole number, got '" + std::string(40, '9') + "'");
}

TEST_CASE("settings: a path, its value, and no bytes that are no text") {
  CHECK(ParseSettings({"train.lr=0.5", "a=b=c"}) ==
        io::Settings{{"train.lr", "0.5"}, {"a", "b=c"}});
  CHECK_THROWS_WITH(ParseSettings({"train.lr"}), Catch::Contains("expected path=value"));
  CHECK_THROWS_WITH(ParseSettings({"name=\xFF"}), "--set: expected UTF-8");
}

TEST_CASE("64 bits: all of them, and neither signs nor more") {
  CHECK(ParseUnsigned("0", "--seed") == 0);
  CHECK(ParseUnsigned("18446744073709551615", "--seed") == ~std::uint64_t{0});
  for (const char* text : {"18446744073709551616", "-1", "+1", "", "1e3", " 1", "0x10"}) {
    CHECK_THROWS_WITH(
        ParseUnsigned(text, "--start"),
        std::string("--start: expected a whole number from 0 to 2^64-1, got '") + text + "'");
  }
}

TEST_CASE("settings: path=value, of which only the first = counts") {
  CHECK(ParseSettings({"a.b=c=d", "e="}) == io::Settings{{"a.b", "c=d"}, {"e", ""}});
  CHECK_THROWS_AS(ParseSettings({"a.b"}), ConfigError);
  CHECK_THROWS_AS(ParseSettings({"=1"}), ConfigError);
}

TEST_CASE("--fail-on: names out of those of the command") {
  const std::vector<std::string> known = {"failed", "missing"};
  CHECK(ParseFailOn("", known).empty());
  CHECK(ParseFailOn("missing,failed", known) == std::vector<std::string>{"missing", "failed"});
  CHECK_THROWS_WITH(ParseFailOn("failed,empty", known),
                    "--fail-on: 'empty' is none of failed, missing");
}

TEST_CASE("shards: parts count from 0") {
  CHECK(ParseShard("").count == 1);
  CHECK(ParseShard("2/8").index == 2);
  CHECK(ParseShard("2/8").count == 8);
  for (const char* text : {"8/8", "0/0", "1", "/2", "a/2", "-1/2"}) {
    CHECK_THROWS_AS(ParseShard(text), ConfigError);
  }
}

TEST_CASE("times: seconds, or numbers with units") {
  for (const auto& [text, seconds] : std::map<std::string, double>{{"90", 90},
                                                                   {"1.5", 1.5},
                                                                   {"0", 0},
                                                                   {"20m", 1200},
                                                                   {"1h30m", 5400},
                                                                   {"1d2h3m4.5s", 93784.5},
                                                                   {"36525d", 3155760000}}) {
    CHECK(ParseSeconds(text) == seconds);
  }
  for (const char* text : {"", "-1", "nan", "inf", "1h30", "h", "3w", "1h-5m", "1 2", "9999999999",
                           "3000000h", "36525d1s"}) {
    CHECK_FALSE(ParseSeconds(text));
  }
}

}  // namespace
}  // namespace mixerbench::harness::cli
