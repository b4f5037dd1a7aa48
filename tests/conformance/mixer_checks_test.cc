// Every mixer keeps the promises of models/mixer.h: causal, the same in pieces and steps, right
// gradients, the same bits again, every precision. The checks are those of `mixer check`.
// SPDX-License-Identifier: Apache-2.0
#include "models/checks/mixer_checks.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "tests/conformance/mixer_cases.h"
#include "tests/support/compare.h"

#include "tests/support/catch2.h"

namespace mixerbench::conformance {
namespace {

using models::ExecutionPath;
using models::checks::Candidate;
using models::checks::Finding;
using models::checks::MixerChecks;

// Whether an option, of a mixer that is held too, asks for a gradient that is not the derivative.
bool IsStraightThrough(const Value& config) {
  if (config.is_string()) return config.as_string() == "straight_through";
  if (config.is_array()) {
    return std::any_of(config.as_array().begin(), config.as_array().end(), IsStraightThrough);
  }
  if (!config.is_object()) return false;
  return std::any_of(config.as_object().begin(), config.as_object().end(),
                     [](const auto& option) { return IsStraightThrough(option.second); });
}

// One section for each check, so that a failure names it and the others still run.
TEST_CASE("mixers: every check of `mixer check` passes") {
  const std::size_t index = GENERATE(Catch::Generators::range<std::size_t>(0, 14));
  REQUIRE(MixerChecks().size() == 14);
  const models::checks::MixerCheck& check = MixerChecks()[index];
  for (const MixerCase& mixer_case : MixerCases()) {
    const bool has_other_gradient =
        IsStraightThrough(models::ResolveMixer(mixer_case.config, "", Mixers()));
    if (check.name == "gradients" && has_other_gradient) continue;
    const Finding finding = check.run(Candidate(SpecOf(mixer_case)));
    CAPTURE(mixer_case.label, check.promise, finding.where, finding.error, finding.tolerance,
            finding.reason);
    CHECK(finding.passed);
  }
}

TEST_CASE("mixers: a check that throws did not pass, and its reason has no frames of the stack") {
  const models::checks::MixerCheck throws{"throws", "", [](const Candidate&) {
                                            (void)at::zeros({0}).unflatten(0, {-1, 0});
                                            return Finding{};
                                          }};
  const Finding finding = models::checks::RunCheck(throws, Candidate(SpecOf(MixerCases().front())));
  CHECK_FALSE(finding.passed);
  CHECK_THAT(finding.reason, Catch::Contains("cannot reshape"));
  CHECK_THAT(finding.reason, !Catch::Contains("frame #"));
}

TEST_CASE("mixers: on the reference path a token changes no bit of an earlier output") {
  constexpr std::int64_t kChanged = 66;
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor x = model.Draw(2, 70, 1, at::kDouble);
    const at::Tensor changed = x.clone();
    changed.select(1, kChanged).add_(1);
    const auto earlier = [&](const at::Tensor& inputs) {
      return model.Run(inputs, ExecutionPath::kReference).narrow(1, 0, kChanged);
    };
    CHECK(testing::BitwiseEqual(earlier(changed), earlier(x)));
  }
}

}  // namespace
}  // namespace mixerbench::conformance
