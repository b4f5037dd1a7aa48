// SPDX-License-Identifier: Apache-2.0
#include "reports/published/published.h"

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "io/json.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

PublishedResult Mqar(const std::string& mixer, Object params) {
  return {.source = "paper",
          .table = "Table 1",
          .task = "MQAR",
          .mixer = mixer,
          .metric = "accuracy",
          .unit = "fraction",
          .value = 0.5,
          .params = std::move(params),
          .note = ""};
}

}  // namespace

TEST_CASE("The published results are read whole, and each says its source",
          "[reports][published]") {
  const auto& results = PublishedResults();
  CHECK(results.size() == 2160);
  for (const PublishedResult& result : results) {
    CHECK_FALSE(result.source.empty());
    CHECK_FALSE(result.table.empty());
    CHECK_FALSE(result.task.empty());
  }
  CHECK_THROWS_AS(ParsePublished("{\"tables\": [{}]}"), Error);
}

TEST_CASE("A published result is in the range of its unit, read in a stated way, and stands once",
          "[reports][published]") {
  std::set<std::string> seen;
  for (const PublishedResult& result : PublishedResults()) {
    const std::string what = result.source + ", " + result.table + ", " + result.task + ", " +
                             result.mixer + ", " + result.metric + ", " +
                             io::DumpJson(result.params);
    CAPTURE(what);
    CHECK(seen.insert(what).second);
    CHECK_FALSE(result.mixer.empty());
    CHECK_FALSE(result.note.empty());
    if (!result.value) continue;
    const bool is_accuracy = result.metric.find("accuracy") != std::string::npos;
    const std::optional<double> share = PublishedShare(result);
    CHECK(share.has_value() == is_accuracy);
    const double upper = is_accuracy ? 1 : result.unit == "0..5" ? 5 : kInfinity;
    const double value = share.value_or(*result.value);
    CHECK((0 <= value && value <= upper));
  }
}

TEST_CASE("Of cells that RESONA's table has lost nobody says a number", "[reports][published]") {
  int num_lost = 0;
  for (const PublishedResult& result : PublishedResults()) {
    if (result.mixer != "BaseConv" || result.table != "Table 11") continue;
    const auto length = result.params.find("seq_len");
    REQUIRE(length != result.params.end());
    // Of 4 cells each, one is left at 128 tokens and two at 256: whose is not known.
    const bool is_lost = length->second.as_int() == 128 || length->second.as_int() == 256;
    CHECK(result.value.has_value() != is_lost);
    num_lost += is_lost;
  }
  CHECK(num_lost == 8);
}

TEST_CASE("Names of papers are ours only when they mean one mixer", "[reports][published]") {
  CHECK(OurMixerName("Mamba-2") == "mamba2");
  CHECK(OurMixerName("GDN") == "gated_delta_net");
  CHECK(OurMixerName("Mamba + RESONA") == "mamba + resona");
  CHECK(OurMixerName("H3 + RESONA layer 2") == "h3 + resona layer 2");
  CHECK(OurMixerName("S5 + SelectLTI") == "s5 + selectlti");
  CHECK(OurMixerName("Mamba-2 + attention").empty());
  CHECK(OurMixerName("RWKV + RESONA layer 0") == "rwkv5 + resona layer 0");
  CHECK(PublishedShare(Mqar("GLA", {})) == 0.5);
}

TEST_CASE("The block around a system decides which mixer of ours it is", "[reports][published]") {
  CHECK(OurMixerName(Mqar("S6", {{"architecture", "Mamba"}})) == "mamba");
  CHECK(OurMixerName(Mqar("S4", {{"architecture", "H3"}})) == "h3");
  CHECK(OurMixerName(Mqar("S6", {{"architecture", "no gate"}})) == "s6");
  CHECK(OurMixerName(Mqar("Hyena", {{"architecture", "Mamba"}})).empty());
}

}  // namespace mixerbench::reports
