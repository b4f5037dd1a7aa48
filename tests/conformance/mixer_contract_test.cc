// Every mixer keeps the promises of models/mixer.h that are about rows, taps and options; the
// others are those of mixer_checks_test.
// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "tests/conformance/mixer_cases.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::conformance {
namespace {

using models::ExecutionPath;
using testing::BitwiseEqual;
using testing::RandomNormal;
using testing::RelativeError;

// Other shapes take other routes through matrix products; float64 rounds at 1e-16.
constexpr double kSameMaths = 1e-12;

bool AllFinite(const at::Tensor& x) { return at::isfinite(x).all().item<bool>(); }

// Selected tokens: the same outputs and gradients as when they are gathered from all.
TEST_CASE("mixers: the outputs of selected tokens are those of all, gathered") {
  constexpr std::int64_t kSeqLen = 9;
  const at::Tensor rows = at::tensor({1, 5, 8, 9, 12, 17}, at::kLong);
  at::Tensor entries = at::full({2 * kSeqLen}, rows.size(0), at::kLong);
  for (std::int64_t i = 0; i < rows.size(0); ++i) entries[rows[i]] = i;
  for (const std::int64_t per_sequence : {0, 3}) {
    const models::ScoredPositions selection{rows, entries, per_sequence};
    for (const MixerCase& mixer_case : MixerCases()) {
      CAPTURE(mixer_case.label, per_sequence);
      const TestMixer model(mixer_case, at::kDouble);
      const auto run = [&](const models::ScoredPositions* selected) {
        const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1).requires_grad_(true);
        at::Tensor y = models::Forward(model.mixer(), model.InputsOf(x), {.scored = selected}).y;
        if (selected == nullptr) y = y.flatten(0, 1).index_select(0, rows);
        (y * RandomNormal(y.sizes(), 2)).sum().backward();
        return std::pair(y.detach(), x.grad());
      };
      const auto [y, dx] = run(&selection);
      const auto [all_y, all_dx] = run(nullptr);
      REQUIRE(y.sizes() == all_y.sizes());
      CHECK(RelativeError(y, all_y) < kSameMaths);
      CHECK(RelativeError(dx, all_dx) < kSameMaths);
    }
  }
}

TEST_CASE("mixers: parameters have different names") {
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer model(mixer_case, at::kFloat);
    std::set<std::string> names;
    for (const models::Parameter& parameter : model.parameters()) {
      CHECK(names.insert(parameter.name).second);
    }
  }
}

TEST_CASE("mixers: taps record float32 copies and change no bit of the output") {
  const at::NoGradGuard no_grad;
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor x = RandomNormal({2, 9, kModelDim}, 1);
    models::TapRecorder recorder;
    recorder.override_write_gate = at::zeros({2, 9}, at::TensorOptions(at::kBool));
    const auto tapped = [&] {
      return models::Forward(model.mixer(), model.InputsOf(x),
                             {.taps = models::TapScope(recorder).Child("here")})
          .y;
    };
    CHECK(RelativeError(tapped(), model.Run(x, ExecutionPath::kFast)) < 1e-14);
    recorder.override_write_gate.reset();
    CHECK(BitwiseEqual(tapped(), model.Run(x, ExecutionPath::kFast)));
    for (const auto& [name, value] : recorder.records) {
      CAPTURE(name);
      CHECK(name.starts_with("here."));
      CHECK(value.scalar_type() == at::kFloat);
      CHECK(AllFinite(value));
    }
  }
}

TEST_CASE("mixers: options are complete, strict, and each is tested away from its default") {
  for (const auto& [name, entry] : Mixers().entries()) {
    CAPTURE(name);
    const Value defaults = entry.resolve(Object{}, "/mixer", Mixers());
    for (const FieldInfo& option : entry.params) {
      CAPTURE(option.name);
      // What joined later is left out at its default (Fields::AddLater), and only there.
      if (defaults.Find(option.name) == nullptr) {
        const Object spelt_out = {{option.name, option.default_value}};
        CHECK(entry.resolve(spelt_out, "/mixer", Mixers()) == defaults);
      }
      bool varied = false;
      for (const Value& config : entry.test_configs) {
        const Value* value = config.Find(option.name);
        varied = varied || (value != nullptr && !(*value == option.default_value));
      }
      CHECK(varied);
    }
    for (const Value& config : entry.test_configs) {
      const Value resolved = entry.resolve(config, "/mixer", Mixers());
      CHECK(entry.resolve(resolved, "/mixer", Mixers()) == resolved);
    }
    CHECK_THROWS_AS(entry.resolve(Object{{"no_such_option", 1}}, "/mixer", Mixers()), ConfigError);
  }
}

TEST_CASE("mixers: an eps that is not positive is an error that names the option") {
  for (const auto& [name, entry] : Mixers().entries()) {
    for (const FieldInfo& option : entry.params) {
      if (!option.name.ends_with("eps")) continue;
      for (const double eps : {0.0, -1e-5, 1e-50, 1e50}) {
        CAPTURE(name, option.name, eps);
        const MixerCase mixer_case = CaseOf({{"name", name}, {option.name, eps}});
        CHECK_THROWS_WITH(TestMixer(mixer_case, at::kFloat),
                          Catch::Matchers::StartsWith("/" + option.name + ": "));
      }
    }
  }
}

TEST_CASE("mixers: an unknown mixer is an error that names the place and the known ones") {
  CHECK_THROWS_WITH(models::ResolveMixer(Object{{"name", "atention"}}, "/mixer", Mixers()),
                    Catch::Matchers::StartsWith("/mixer/name: ") &&
                        Catch::Matchers::Contains("did you mean 'attention'"));
  CHECK_THROWS_WITH(models::ResolveMixer(Object{}, "/mixer", Mixers()),
                    Catch::Matchers::StartsWith("/mixer/name: "));
  CHECK_THROWS_WITH(models::ResolveMixer(Value("attention"), "/mixer", Mixers()),
                    Catch::Matchers::StartsWith("/mixer: "));
}

TEST_CASE("mixers: every folder has a code hash") {
  for (const std::string& name : Mixers().Names()) {
    CAPTURE(name);
    CHECK(models::MixerCodeHash(name).size() == 64);
  }
}

}  // namespace
}  // namespace mixerbench::conformance
