// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/check.h"
#include "base/dotted_path.h"
#include "base/error.h"
#include "base/fields.h"
#include "base/registry.h"
#include "base/sha256.h"
#include "base/suggest.h"

#include "tests/support/catch2.h"

namespace mixerbench {
namespace {

enum class Shade { kLight, kDark };

struct Options {
  std::int64_t count = 3;
  double rate = 0.5;
  bool loud = false;
  Shade shade = Shade::kLight;
  std::vector<std::int64_t> sizes = {1, 2};
};

}  // namespace

template <>
struct EnumNames<Shade> {
  static constexpr std::array kNames = {std::pair{Shade::kLight, std::string_view("light")},
                                        std::pair{Shade::kDark, std::string_view("dark")}};
};

namespace {

const Fields<Options>& OptionFields() {
  static const auto fields = Fields<Options>()
                                 .Add("count", &Options::count, "how many")
                                 .Add("rate", &Options::rate, "how fast")
                                 .Add("loud", &Options::loud, "noise")
                                 .Add("shade", &Options::shade, "colour")
                                 .Add("sizes", &Options::sizes, "a list");
  return fields;
}

std::string ReadFailure(const Value& value) {
  try {
    OptionFields().Parse(value, "/options");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a dotted path has a last part, and all before it") {
  CHECK(LastPart("model.sequence_mixer.num_heads") == "num_heads");
  CHECK(LastPart("num_heads") == "num_heads");
  CHECK(LastPart("") == "");
  CHECK(AllButLastPart("model.sequence_mixer.num_heads") == "model.sequence_mixer");
  CHECK(AllButLastPart("num_heads") == "");
  CHECK(EndsWithPath("model.sequence_mixer.num_heads", "num_heads"));
  CHECK(EndsWithPath("model.sequence_mixer.num_heads", "sequence_mixer.num_heads"));
  CHECK(EndsWithPath("num_heads", "num_heads"));
  CHECK_FALSE(EndsWithPath("model.num_heads", "heads"));
}

TEST_CASE("a dotted path lies in those that lead to it") {
  CHECK(LiesIn("model.sequence_mixer", "model.sequence_mixer"));
  CHECK(LiesIn("model.sequence_mixer.num_heads", "model.sequence_mixer"));
  CHECK_FALSE(LiesIn("model.sequence_mixers", "model.sequence_mixer"));
  CHECK_FALSE(LiesIn("model", "model.sequence_mixer"));
}

TEST_CASE("a broken precondition names the place of the call") {
  const std::string place = "base/base_test.cc:" + std::to_string(__LINE__ + 2);
  try {
    Require(false, "two is three");
    FAIL("nothing was thrown");
  } catch (const BrokenPrecondition& broken) {
    CHECK(broken.what() == place + ": two is three");
    CHECK(broken.message() == "two is three");
  }
}

TEST_CASE("fields: a round trip keeps every value and spells out defaults") {
  const auto options = OptionFields().Parse(
      Object{{"count", 7}, {"shade", "dark"}, {"sizes", Array{4, 5}}}, "/options");
  CHECK(options.count == 7);
  CHECK(options.shade == Shade::kDark);
  const Value written = OptionFields().Write(options);
  CHECK(written == Value(Object{{"count", 7},
                                {"rate", 0.5},
                                {"loud", false},
                                {"shade", "dark"},
                                {"sizes", Array{4, 5}}}));
  CHECK(OptionFields().Write(OptionFields().Parse(written, "")) == written);
}

TEST_CASE("fields: an option that joined later is written where it is not what was before") {
  const auto fields = Fields<Options>()
                          .Add("count", &Options::count, "how many")
                          .AddLater("rate", &Options::rate, "how fast");
  CHECK(fields.Write(fields.Parse(Object{{"rate", 0.5}}, "")) == Value(Object{{"count", 3}}));
  const Value changed = Object{{"count", 3}, {"rate", 2}};
  CHECK(fields.Write(fields.Parse(changed, "")) == changed);
}

TEST_CASE("fields: errors name the place, the fault and the remedy") {
  CHECK(ReadFailure(Object{{"cuont", 1}}) ==
        "/options/cuont: unknown parameter 'cuont' (did you mean 'count'?); known: count, rate, "
        "loud, shade, sizes");
  CHECK(ReadFailure(Object{{"count", 1.5}}) == "/options/count: expected an integer, got number");
  CHECK(ReadFailure(Object{{"sizes", Array{1, "x"}}}) ==
        "/options/sizes/1: expected an integer, got string");
  CHECK(ReadFailure(Object{{"shade", "drak"}}) ==
        "/options/shade: unknown value 'drak' (did you mean 'dark'?); known: light, dark");
  CHECK(ReadFailure(Value(3)) == "/options: expected an object, got integer");
}

TEST_CASE("registry: refuses a second unit of one name and lists the known ones") {
  Registry<int> registry("mixer");
  registry.Add("gla", 1);
  CHECK_THROWS_AS(registry.Add("gla", 2), std::logic_error);
  CHECK(registry.Find("gla", "/model") == 1);
  CHECK_THROWS_WITH(registry.Find("glaa", "/model"),
                    "/model: unknown mixer 'glaa' (did you mean 'gla'?); known: gla");
}

TEST_CASE("suggest: transpositions count once, far names are not offered") {
  CHECK(EditDistance("abcd", "acbd") == 1);
  CHECK(EditDistance("", "abc") == 3);
  CHECK(ClosestName("delta_nte", {"gla", "delta_net"}) == "delta_net");
  CHECK(ClosestName("banana", {"gla", "delta_net"}).empty());
}

TEST_CASE("sha256: NIST vectors") {
  CHECK(Sha256Hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(Sha256Hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace mixerbench
