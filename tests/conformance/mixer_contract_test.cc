// Every mixer keeps the promises of models/mixer.h: gradients, states, options, taps, precision.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
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

// Truncation kStep^2 and rounding 1e-16 / kStep, both near 1e-10, times the derivatives of a
// product of ten factors.
constexpr double kGradientTolerance = 1e-7;
// bf16 rounds at 2^-9 = 0.002 and a mixer chains about ten roundings.
constexpr double kBfloatTolerance = 0.03;
// Other shapes take other routes through matrix products; float64 rounds at 1e-16.
constexpr double kSameMaths = 1e-12;

bool AllFinite(const at::Tensor& x) { return at::isfinite(x).all().item<bool>(); }

// <y, weights> without gradients.
double Objective(const TestMixer& model, const at::Tensor& x, const at::Tensor& weight) {
  return (model.Run(x, ExecutionPath::kFast).mul(weight)).sum().item<double>();
}

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

TEST_CASE("mixers: the derivative along random directions agrees with central differences") {
  constexpr double kStep = 1e-5;
  constexpr std::int64_t kSeqLen = 6;
  for (const MixerCase& mixer_case : MixerCases()) {
    if (IsStraightThrough(models::ResolveMixer(mixer_case.config, "", Mixers()))) continue;
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1).requires_grad_(true);
    const at::Tensor weight = RandomNormal(x.sizes(), 2);
    models::Forward(model.mixer(), model.InputsOf(x)).y.mul(weight).sum().backward();

    std::vector<models::Parameter> leaves = model.parameters();
    leaves.push_back({"x", x, models::ParameterRole::kSpecial, false});
    std::uint64_t seed = 10;
    for (const models::Parameter& leaf : leaves) {
      CAPTURE(mixer_case.label, leaf.name);
      const at::NoGradGuard no_grad;
      at::Tensor direction = RandomNormal(leaf.tensor.sizes(), ++seed);
      direction = direction / direction.norm();
      const auto at_offset = [&](double offset) {
        leaf.tensor.add_(direction, offset);
        const double value = Objective(model, x, weight);
        leaf.tensor.add_(direction, -offset);
        return value;
      };
      const double numeric = (at_offset(kStep) - at_offset(-kStep)) / (2 * kStep);
      // What only chooses has no gradient, and changes nothing.
      const at::Tensor& gradient = leaf.tensor.grad();
      const double analytic =
          gradient.defined() ? gradient.mul(direction).sum().item<double>() : 0.0;
      CHECK(std::abs(numeric - analytic) < kGradientTolerance * std::max(1.0, std::abs(analytic)));
    }
  }
}

TEST_CASE("mixers: nothing is read before it is written, and two runs agree in every bit") {
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kFloat);
    const at::Tensor x = RandomNormal({2, 67, kModelDim}, 1, at::kFloat);
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      const Results plain = Differentiate(model, x, {67}, path);
      const testing::PoisonUninitializedMemory poison;
      const Results poisoned = Differentiate(model, x, {67}, path);
      for (const auto& [name, value] : plain) {
        CAPTURE(mixer_case.label, name);
        CHECK(AllFinite(value));
        CHECK(BitwiseEqual(poisoned.at(name), value));
      }
    }
  }
}

// "name: kind, dtype" of every tensor.
std::vector<std::string> Layout(const models::State& state) {
  std::vector<std::string> layout;
  models::ForEach(state, [&](const std::string& path, const models::StateTensor& tensor) {
    layout.push_back(path + ": " + std::to_string(static_cast<int>(tensor.kind)) + ", " +
                     at::toString(tensor.value.scalar_type()));
  });
  return layout;
}

TEST_CASE("mixers: the initial state fixes the layout and the size of every later one") {
  const at::NoGradGuard no_grad;
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer model(mixer_case, at::kFloat);
    const models::State initial = model.mixer().InitialState(1);
    for (const std::int64_t seq_len : {1, 7}) {
      const auto output = models::Forward(
          model.mixer(), model.InputsOf(RandomNormal({1, seq_len, kModelDim}, 1, at::kFloat)),
          {.want_final_state = true});
      CHECK(Layout(output.final_state) == Layout(initial));
      CHECK(models::SizeOf(output.final_state).recurrent ==
            models::SizeOf(initial, seq_len).recurrent);
      CHECK(models::SizeOf(output.final_state).conv == models::SizeOf(initial, seq_len).conv);
    }
  }
}

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

TEST_CASE("mixers: parameters have different names and the same values in every precision") {
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer exact(mixer_case, at::kDouble);
    const TestMixer rounded(mixer_case, at::kFloat);
    std::set<std::string> names;
    for (std::size_t i = 0; i < exact.parameters().size(); ++i) {
      const models::Parameter& parameter = exact.parameters()[i];
      CHECK(names.insert(parameter.name).second);
      CHECK(BitwiseEqual(parameter.tensor.to(at::kFloat), rounded.parameters()[i].tensor));
    }
  }
}

TEST_CASE("mixers: bf16 activations give bf16 outputs near those of float32") {
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kFloat);
    const at::Tensor x = RandomNormal({2, 67, kModelDim}, 1, at::kBFloat16);
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CAPTURE(mixer_case.label);
      const Results low = Differentiate(model, x, {3, 64}, path);
      const Results high = Differentiate(model, x.to(at::kFloat), {67}, path);
      CHECK(low.at("y").scalar_type() == at::kBFloat16);
      if (!model.mixer().traits().discrete) {
        CHECK(RelativeError(low.at("y"), high.at("y")) < kBfloatTolerance);
      }
      for (const auto& [name, value] : low) {
        CAPTURE(name);
        CHECK(AllFinite(value));
      }
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

TEST_CASE("mixers: random numbers come from the generator that is passed and from nowhere else") {
  const at::NoGradGuard no_grad;
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer model(mixer_case, at::kFloat);
    const at::Tensor x = RandomNormal({2, 9, kModelDim}, 1, at::kFloat);
    const auto run_with_seed = [&](std::uint64_t seed) {
      return models::Forward(model.mixer(), model.InputsOf(x),
                             {.generator = at::detail::createCPUGenerator(seed)})
          .y;
    };
    CHECK(BitwiseEqual(run_with_seed(1), run_with_seed(1)));
  }
}

TEST_CASE("mixers: options are complete, strict, and each is tested away from its default") {
  for (const auto& [name, entry] : Mixers().entries()) {
    CAPTURE(name);
    const Value defaults = entry.resolve(Object{}, "/mixer", Mixers());
    for (const FieldInfo& option : entry.params) {
      CAPTURE(option.name);
      REQUIRE(defaults.Find(option.name) != nullptr);
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
