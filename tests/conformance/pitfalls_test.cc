// Faults that other implementations of these mixers have had, on every mixer of the registry. What
// one mixer or core alone can get wrong is tested beside it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>

#include "tests/conformance/mixer_cases.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::conformance {
namespace {

using models::ExecutionPath;
using models::StateKind;
using testing::BitwiseEqual;
using testing::RandomNormal;

constexpr std::int64_t kSeqLen = 67;  // more than a chunk, and no multiple of anything

void CheckFinite(const Results& results) {
  for (const auto& [name, value] : results) {
    CAPTURE(name);
    CHECK(at::isfinite(value).all().item<bool>());
  }
}

bool IsGradient(const Results::value_type& result) { return result.first.starts_with("d"); }

// Keys of norm 0 have no direction, gates of exactly 0 write nothing: both are legal.
TEST_CASE("pitfalls: tokens of zeros, at the start and in the middle, leave everything finite") {
  for (const MixerCase& mixer_case : MixerCases()) {
    // With mini-batches of a token, every one of a constant row multiplies what passes back through
    // the layer that TTT trains by 1 - lr / eps: their product, the derivative itself, is beyond
    // float32 (ttt_linear.md).
    const bool has_finite_gradients = mixer_case.label != "ttt_linear[2]";
    const TestMixer model(mixer_case, at::kFloat);
    at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1, at::kFloat);
    x.narrow(1, 0, 3).zero_();
    x.narrow(1, 30, 20).zero_();
    x[1].zero_();
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CAPTURE(mixer_case.label, path == ExecutionPath::kFast);
      Results results = Differentiate(model, x, {kSeqLen}, path);
      if (!has_finite_gradients) std::erase_if(results, IsGradient);
      CheckFinite(results);
    }
  }
}

// Exponents are masked before they are taken, and no log decay is above zero.
TEST_CASE("pitfalls: inputs far beyond a norm's leave everything finite and decays legal") {
  constexpr double kFactor = 30;
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kFloat);
    const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1, at::kFloat) * kFactor;
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CAPTURE(mixer_case.label, path == ExecutionPath::kFast);
      CheckFinite(Differentiate(model, x, {kSeqLen}, path));
    }
    const at::NoGradGuard no_grad;
    models::TapRecorder recorder;
    models::Forward(model.mixer(), model.InputsOf(x), {.taps = models::TapScope(recorder)});
    for (const auto& [name, value] : recorder.records) {
      if (!name.ends_with("log_decay")) continue;
      CAPTURE(mixer_case.label, name);
      CHECK(value.le(0).all().item<bool>());
    }
  }
}

std::map<std::string, at::Tensor> CopyOf(const models::State& state) {
  std::map<std::string, at::Tensor> copy;
  models::ForEach(state, [&](const std::string& path, const models::StateTensor& tensor) {
    copy[path] = tensor.value.clone();
  });
  return copy;
}

// A state that a call has changed in place would give another answer the second time.
TEST_CASE("pitfalls: a call writes to no state that it was given") {
  const at::NoGradGuard no_grad;
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kFloat);
    const auto piece = [&](std::uint64_t seed, std::int64_t length) {
      return model.InputsOf(RandomNormal({2, length, kModelDim}, seed, at::kFloat));
    };
    const models::State begun =
        models::Forward(model.mixer(), piece(1, 5), {.want_final_state = true}).final_state;
    for (const models::State& given : {model.mixer().InitialState(2), begun}) {
      const auto before = CopyOf(given);
      for (const std::int64_t length : {std::int64_t{1}, kSeqLen}) {
        for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
          CAPTURE(mixer_case.label, length, path == ExecutionPath::kFast);
          models::Forward(model.mixer(), piece(2, length),
                          {.path = path, .initial_state = &given, .want_final_state = true});
          const auto after = CopyOf(given);
          for (const auto& [name, value] : before) {
            CAPTURE(name);
            CHECK(BitwiseEqual(after.at(name), value));
          }
        }
      }
    }
  }
}

// The final state of one call has the gradients of the next piece's loss: not in bf16, where a sum
// of many small ones stops growing.
TEST_CASE("pitfalls: what a recurrence carries is not rounded to the activations' dtype") {
  const at::NoGradGuard no_grad;
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kFloat);
    const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1, at::kBFloat16);
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      const models::MixerResult result = models::Forward(model.mixer(), model.InputsOf(x),
                                                         {.path = path, .want_final_state = true});
      models::ForEach(result.final_state,
                      [&](const std::string& name, const models::StateTensor& tensor) {
                        if (tensor.kind != StateKind::kRecurrent) return;
                        if (name == "k" || name == "v") return;  // a window of what came, no sum
                        CAPTURE(mixer_case.label, name, path == ExecutionPath::kFast);
                        CHECK(tensor.value.scalar_type() != at::kBFloat16);
                      });
    }
  }
}

// An intervention replaces the gate and nothing that came before.
TEST_CASE("pitfalls: overridden write gates act from the token on, and not on earlier outputs") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kOverridden = 7, kShort = 12;
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kDouble);
    const auto inputs = model.InputsOf(RandomNormal({2, kShort, kModelDim}, 1));
    models::TapRecorder recorder;
    const at::Tensor plain =
        models::Forward(model.mixer(), inputs, {.taps = models::TapScope(recorder)}).y;
    const bool has_gate =
        std::any_of(recorder.records.begin(), recorder.records.end(),
                    [](const auto& record) { return record.first.ends_with("write_gate"); });
    recorder.override_write_gate = at::zeros({2, kShort}, at::TensorOptions(at::kBool));
    recorder.override_write_gate->select(1, kOverridden).fill_(true);
    const at::Tensor changed =
        models::Forward(model.mixer(), inputs, {.taps = models::TapScope(recorder)}).y;
    CAPTURE(mixer_case.label);
    CHECK(testing::RelativeError(changed.narrow(1, 0, kOverridden),
                                 plain.narrow(1, 0, kOverridden)) < 1e-12);
    if (!has_gate) CHECK(BitwiseEqual(changed, plain));
  }
}

// Which taps a mixer has, of those that say something of it.
TEST_CASE("pitfalls: every mixer records the taps that it has something to say for") {
  const std::set<std::string> matrix = {"write_gate", "log_decay", "state", "state_norm"};
  const auto with = [&](const std::set<std::string>& more) {
    std::set<std::string> all = matrix;
    all.insert(more.begin(), more.end());
    return all;
  };
  const std::set<std::string> routed = {"router", "router_scores", "router_indices"};
  const auto and_routed = [&](std::set<std::string> taps) {
    taps.insert(routed.begin(), routed.end());
    return taps;
  };
  const std::map<std::string, std::set<std::string>> expected = {
      {"fox", {"log_decay"}},
      {"linear_attention", {"write_gate", "state", "state_norm"}},
      {"retnet", matrix},
      {"lightning", matrix},
      {"simple_gla", matrix},
      {"gla", matrix},
      {"hgrn2", matrix},
      {"metala", matrix},
      {"gsa", with({"slot_probs"})},
      {"abc", with({"slot_probs"})},
      {"raven", and_routed(with({"slot_probs", "effective_length"}))},
      {"delta_net", {"write_gate", "erase", "state", "state_norm"}},
      {"gated_delta_net", with({"erase"})},
      {"gated_delta_net_2", with({"erase"})},
      {"kda", with({"erase"})},
      {"gated_delta_product", with({"erase"})},
      {"rwkv5", with({"bonus"})},
      {"rwkv6", with({"bonus"})},
      {"rwkv7", with({"erase"})},
      {"mesa_net", with({"residual"})},
      {"ttt_linear", {"write_gate"}},
      {"titans", {"write_gate", "log_decay"}},
      {"log_linear", with({"level_weight"})},
      {"log_linear_gdn", with({"level_weight", "erase"})},
      {"mom", and_routed(with({"erase", "shared.erase"}))},
      {"sse", and_routed(matrix)},
      {"sse_gdn", and_routed(with({"erase", "shared.erase"}))},
      {"row_sparse", with({"router"})},
      {"sila", with({"alpha", "surprise"})},
      {"mamba2", matrix},
  };
  const at::NoGradGuard no_grad;
  for (const auto& [name, taps] : expected) {
    const TestMixer model(CaseOf({{"name", name}}), at::kDouble);
    models::TapRecorder recorder;
    const auto inputs = model.InputsOf(RandomNormal({2, 9, kModelDim}, 1));
    models::Forward(model.mixer(), inputs, {.taps = models::TapScope(recorder)});
    for (const std::string& tap : taps) {
      CAPTURE(name, tap);
      CHECK(recorder.records.contains(tap));
    }
  }
}

}  // namespace
}  // namespace mixerbench::conformance
