// Every mixer on packed sequences: outputs, gradients, states and losses are those of the sequences
// one by one, whatever stands before or after them.
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>

#include "tests/conformance/mixer_cases.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::conformance {
namespace {

using models::MixerInputs;
using models::MixerOptions;
using models::MixerResult;
using models::State;
using testing::BitwiseEqual;
using testing::RandomNormal;
using testing::RelativeError;

// Other shapes take other routes through matrix products; float64 rounds at 1e-16.
constexpr double kSameMaths = 1e-12;
// The same, of gradients through Fourier transforms of other lengths.
constexpr double kGradientTolerance = 1e-10;
// Losses are fp32, and may be differences of two.
constexpr double kLossTolerance = 2e-5;

// Two of one length, one that is empty, one of a token, one of more than a chunk.
const std::vector<std::int64_t> kLengths = {5, 0, 1, 67, 5, 3};
constexpr std::int64_t kNumTokens = 81;

at::Tensor Ends() { return at::tensor({0, 5, 5, 6, 73, 78, 81}, at::kInt); }

std::vector<at::Tensor> Separate(const at::Tensor& packed) {
  std::vector<at::Tensor> sequences;
  std::int64_t start = 0;
  for (const std::int64_t length : kLengths) {
    sequences.push_back(packed.narrow(1, start, length));
    start += length;
  }
  return sequences;
}

MixerInputs PackedInputs(const TestMixer& model, const at::Tensor& x) {
  MixerInputs inputs = model.InputsOf(x);
  inputs.cu_seqlens = Ends();
  return inputs;
}

// y, and gradients of x and all parameters for a fixed weighting of y.
Results Differentiated(const TestMixer& model, const at::Tensor& x, const at::Tensor& y) {
  (y * RandomNormal(y.sizes(), 3)).sum().backward();
  Results results = {{"y", y.detach()}, {"dx", x.grad().clone()}};
  for (const models::Parameter& parameter : model.parameters()) {
    if (!parameter.tensor.grad().defined()) continue;
    results["d" + parameter.name] = parameter.tensor.grad().clone();
    parameter.tensor.mutable_grad().reset();
  }
  return results;
}

TEST_CASE("packing: outputs and gradients are those of separate sequences") {
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor values = RandomNormal({1, kNumTokens, kModelDim}, 1);

    const at::Tensor separate = values.clone().requires_grad_(true);
    std::vector<at::Tensor> outputs;
    std::map<std::string, at::Tensor> losses;
    for (const at::Tensor& x : Separate(separate)) {
      if (x.size(1) == 0) continue;
      MixerResult result = models::Forward(model.mixer(), model.InputsOf(x));
      outputs.push_back(result.y);
      for (const auto& [name, loss] : result.losses) {
        const at::Tensor share = loss * (static_cast<double>(x.size(1)) / kNumTokens);
        losses[name] = losses.contains(name) ? losses[name] + share : share;
      }
    }
    const Results expected = Differentiated(model, separate, at::cat(outputs, 1));

    const at::Tensor packed = values.clone().requires_grad_(true);
    const MixerResult result = models::Forward(model.mixer(), PackedInputs(model, packed));
    const Worst worst = WorstError(Differentiated(model, packed, result.y), expected, "");
    CAPTURE(mixer_case.label, worst.name);
    CHECK(worst.error < kGradientTolerance);
    CHECK(result.losses.size() == losses.size());
    for (const auto& [name, loss] : losses) {
      CHECK(RelativeError(result.losses.at(name).detach(), loss.detach()) < kLossTolerance);
    }
  }
}

TEST_CASE("packing: states are taken and left for every sequence") {
  const at::NoGradGuard no_grad;
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor first = RandomNormal({1, kNumTokens, kModelDim}, 1);
    const at::Tensor second = RandomNormal({1, kNumTokens, kModelDim}, 2);
    const MixerResult begun =
        models::Forward(model.mixer(), PackedInputs(model, first), {.want_final_state = true});
    const MixerResult continued =
        models::Forward(model.mixer(), PackedInputs(model, second),
                        {.initial_state = &begun.final_state, .want_final_state = true});
    const auto expected_starts = Separate(first);
    const auto expected_ends = Separate(second);
    const auto y = Separate(continued.y);
    for (std::size_t s = 0; s < kLengths.size(); ++s) {
      CAPTURE(mixer_case.label, s);
      const State* const left = models::Inner(&continued.final_state, std::to_string(s));
      State state = model.mixer().InitialState(1);
      if (kLengths[s] > 0) {
        state = models::Forward(model.mixer(), model.InputsOf(expected_starts[s]),
                                {.want_final_state = true})
                    .final_state;
        MixerResult end = models::Forward(model.mixer(), model.InputsOf(expected_ends[s]),
                                          {.initial_state = &state, .want_final_state = true});
        CHECK(RelativeError(y[s], end.y) < kSameMaths);
        state = std::move(end.final_state);
      }
      std::map<std::string, at::Tensor> tensors;
      models::ForEach(*left, [&](const std::string& path, const models::StateTensor& tensor) {
        tensors[path] = tensor.value;
      });
      models::ForEach(std::as_const(state),
                      [&](const std::string& path, const models::StateTensor& tensor) {
                        REQUIRE(tensors.contains(path));
                        CHECK(RelativeError(tensors.at(path), tensor.value) < kSameMaths);
                      });
    }
  }
}

TEST_CASE("packing: scored positions of packed sequences are those of all, gathered") {
  const at::NoGradGuard no_grad;
  const at::Tensor rows = at::tensor({0, 5, 6, 40, 72, 73, 80}, at::kLong);
  at::Tensor entries = at::full({kNumTokens}, rows.size(0), at::kLong);
  for (std::int64_t i = 0; i < rows.size(0); ++i) entries[rows[i]] = i;
  const models::ScoredPositions selection{rows, entries, /*rows_per_sequence=*/0};
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer model(mixer_case, at::kDouble);
    const MixerInputs inputs = PackedInputs(model, RandomNormal({1, kNumTokens, kModelDim}, 1));
    const at::Tensor all = models::Forward(model.mixer(), inputs).y;
    const at::Tensor some = models::Forward(model.mixer(), inputs, {.scored = &selection}).y;
    CHECK(RelativeError(some, all[0].index_select(0, rows)) < kSameMaths);
  }
}

// A leak over an end would carry it on: short convolutions, token shifts, chunks, positions.
TEST_CASE("packing: a sequence that is not finite changes no other") {
  const at::NoGradGuard no_grad;
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor x = RandomNormal({1, kNumTokens, kModelDim}, 1);
    const at::Tensor poisoned = x.clone();
    poisoned.narrow(1, 6, 67).fill_(std::numeric_limits<double>::quiet_NaN());
    const at::Tensor clean = models::Forward(model.mixer(), PackedInputs(model, x)).y;
    const at::Tensor y = models::Forward(model.mixer(), PackedInputs(model, poisoned)).y;
    for (const auto& [start, length] : {std::pair{0, 6}, {73, 8}}) {
      CHECK(BitwiseEqual(y.narrow(1, start, length), clean.narrow(1, start, length)));
    }
  }
}

TEST_CASE("packing: taps are those of each sequence") {
  const at::NoGradGuard no_grad;
  const TestMixer model(CaseOf({{"name", "gla"}}), at::kDouble);
  models::TapRecorder recorder;
  const MixerInputs inputs = PackedInputs(model, RandomNormal({1, kNumTokens, kModelDim}, 1));
  models::Forward(model.mixer(), inputs, {.taps = models::TapScope(recorder)});
  CHECK(recorder.records.at("sequences.3.log_decay").size(1) == 67);
  CHECK_FALSE(recorder.records.contains("sequences.1.log_decay"));
  recorder.override_write_gate = at::full({1, kNumTokens}, true, at::kBool);
  CHECK_THROWS_WITH(models::Forward(model.mixer(), inputs, {.taps = models::TapScope(recorder)}),
                    Catch::Matchers::Contains("write gates of packed sequences"));
}

TEST_CASE("packing: ends that make no sense are refused") {
  const at::NoGradGuard no_grad;
  const TestMixer model(CaseOf({{"name", "gla"}}), at::kDouble);
  const auto run = [&](const std::vector<std::int64_t>& ends, std::int64_t batch_size = 1) {
    MixerInputs inputs = model.InputsOf(RandomNormal({batch_size, 4, kModelDim}, 1));
    inputs.cu_seqlens = at::tensor(ends, at::kLong);
    models::Forward(model.mixer(), inputs);
  };
  CHECK_NOTHROW(run({0, 1, 1, 4}));
  CHECK_THROWS_AS(run({0, 3}), std::logic_error);
  CHECK_THROWS_AS(run({1, 4}), std::logic_error);
  CHECK_THROWS_AS(run({0, 3, 2, 4}), std::logic_error);
  CHECK_THROWS_AS(run({4}), std::logic_error);
  CHECK_THROWS_AS(run({0, 4}, /*batch_size=*/2), std::logic_error);
}

}  // namespace
}  // namespace mixerbench::conformance
