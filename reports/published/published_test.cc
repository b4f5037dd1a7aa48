// SPDX-License-Identifier: Apache-2.0
#include "reports/published/published.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

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
