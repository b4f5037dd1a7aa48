// Every mixer: the fast path computes what the reference computes, gradients included.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/plan.h"
#include "tests/conformance/mixer_cases.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::conformance {
namespace {

using models::ExecutionPath;

// Two orders of summation of a few thousand terms near 1.
constexpr double kDoubleTolerance = 1e-10;
// Against the reference in float64: rounding of 2^-24 over a few hundred dependent steps.
constexpr double kFloatTolerance = 1e-5;
// Gradients pass the recurrence twice. The largest, 1.3e-4, is that of the decay bias of simple_gla
// with gates 160 times as strong as its own: its terms, summed over all tokens, nearly cancel.
constexpr double kFloatGradientTolerance = 2e-4;

constexpr std::int64_t kChunk = 64;  // the cores' default
constexpr std::int64_t kLengths[] = {1, 2, kChunk - 1, kChunk, kChunk + 1, 97, 2 * kChunk + 3};

TEST_CASE("mixers: the fast path equals the reference in float64, gradients included") {
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kDouble);
    for (const std::int64_t seq_len : kLengths) {
      CAPTURE(mixer_case.label, seq_len);
      const at::Tensor x = testing::RandomNormal({2, seq_len, kModelDim}, 1);
      const Results fast = Differentiate(model, x, {seq_len}, ExecutionPath::kFast);
      const Results reference = Differentiate(model, x, {seq_len}, ExecutionPath::kReference);
      const Worst worst = WorstError(fast, reference, "");
      CAPTURE(worst.name);
      CHECK(worst.error < kDoubleTolerance);
    }
  }
}

TEST_CASE("mixers: the fast path in float32 is near the reference in float64") {
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer exact(mixer_case, at::kDouble);
    const TestMixer rounded(mixer_case, at::kFloat);
    for (const std::int64_t seq_len : {2, 131}) {
      CAPTURE(mixer_case.label, seq_len);
      const at::Tensor x = testing::RandomNormal({2, seq_len, kModelDim}, 1, at::kFloat);
      const Results fast = Differentiate(rounded, x, {seq_len}, ExecutionPath::kFast);
      const Results reference =
          Differentiate(exact, x.to(at::kDouble), {seq_len}, ExecutionPath::kReference);
      const Worst output = WorstError(fast, reference, "y");
      const Worst gradient = WorstError(fast, reference, "d");
      CAPTURE(gradient.name);
      CHECK(output.error < kFloatTolerance);
      CHECK(gradient.error < kFloatGradientTolerance);
      CHECK(fast.at("y").scalar_type() == at::kFloat);
    }
  }
}

// What dispatchers tell of themselves: cores, projections, convolutions, norms and gates.
TEST_CASE("mixers: on the reference path every function is asked for its reference") {
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kFloat);
    const at::Tensor x = testing::RandomNormal({2, 67, kModelDim}, 1, at::kFloat);
    const kernels::PlanRecorder recorder;
    Differentiate(model, x, {3, 64}, ExecutionPath::kReference);
    for (const kernels::PlanRecord& record : recorder.records()) {
      CAPTURE(mixer_case.label, record.function, record.forward);
      CHECK(record.reason == kernels::kReferenceAsked);
    }
  }
}

}  // namespace
}  // namespace mixerbench::conformance
