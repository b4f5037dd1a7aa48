// Every mixer over time: causal, the same in pieces as in one call, the same in steps.
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>

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

// Other shapes take other routes through matrix products and transforms; float64 rounds at 1e-16.
constexpr double kSameMaths = 1e-12;
// The same through a carried state and both paths of a recurrence.
constexpr double kDoubleTolerance = 1e-10;

constexpr std::int64_t kSeqLen = 70;  // more than a chunk

TEST_CASE("mixers: a token changes no earlier output") {
  constexpr std::int64_t kChanged = 66;
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
    const at::Tensor changed = x.clone();
    changed.select(1, kChanged).add_(1);
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      const at::Tensor before = model.Run(x, path);
      const at::Tensor after = model.Run(changed, path);
      const at::Tensor kept = before.narrow(1, 0, kChanged);
      if (path == ExecutionPath::kReference) {
        CHECK(BitwiseEqual(after.narrow(1, 0, kChanged), kept));
      } else {  // a Fourier transform mixes all positions and separates them again
        CHECK(RelativeError(after.narrow(1, 0, kChanged), kept) < kSameMaths);
      }
      CHECK(RelativeError(after.select(1, kChanged), before.select(1, kChanged)) > 1e-3);
    }
  }
}

TEST_CASE("mixers: a token that is not finite changes no earlier output and no other sequence") {
  constexpr std::int64_t kPoisoned = 66;
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
    const at::Tensor poisoned = x.clone();
    poisoned[1][kPoisoned].fill_(std::numeric_limits<double>::quiet_NaN());
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CAPTURE(mixer_case.label, path == ExecutionPath::kFast);
      const at::Tensor before = model.Run(x, path);
      const at::Tensor after = model.Run(poisoned, path);
      CHECK(RelativeError(after[0], before[0]) < kSameMaths);
      CHECK(RelativeError(after[1].narrow(0, 0, kPoisoned), before[1].narrow(0, 0, kPoisoned)) <
            kSameMaths);
      CHECK(after[1][kPoisoned].isnan().all().item<bool>());
    }
  }
}

TEST_CASE("mixers: the outputs of a prefix are the prefix of the outputs") {
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
    const at::Tensor whole = model.Run(x, ExecutionPath::kFast);
    for (const std::int64_t length : {1, 63, 65}) {
      CAPTURE(mixer_case.label, length);
      const at::Tensor prefix = model.Run(x.narrow(1, 0, length), ExecutionPath::kFast);
      CHECK(RelativeError(prefix, whole.narrow(1, 0, length)) < kSameMaths);
    }
  }
}

TEST_CASE("mixers: a sequence does not see the others of its batch") {
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor x = RandomNormal({3, kSeqLen, kModelDim}, 1);
    const at::Tensor batch = model.Run(x, ExecutionPath::kFast);
    for (std::int64_t b = 0; b < 3; ++b) {
      const at::Tensor alone = model.Run(x.narrow(0, b, 1), ExecutionPath::kFast);
      CHECK(RelativeError(alone, batch.narrow(0, b, 1)) < kSameMaths);
    }
  }
}

TEST_CASE("mixers: pieces with a carried state equal one call, gradients included") {
  for (const MixerCase& mixer_case : MixerCases()) {
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
    const Results whole = Differentiate(model, x, {kSeqLen}, ExecutionPath::kFast);
    for (const std::vector<std::int64_t>& pieces :
         std::vector<std::vector<std::int64_t>>{{1, 2, 67}, {65, 5}, {64, 1, 1, 4}}) {
      CAPTURE(mixer_case.label, pieces);
      const Worst worst =
          WorstError(Differentiate(model, x, pieces, ExecutionPath::kFast), whole, "");
      CAPTURE(worst.name);
      CHECK(worst.error < kDoubleTolerance);
    }
  }
}

TEST_CASE("mixers: decoding step by step equals one call") {
  constexpr std::int64_t kSteps = 9;
  const at::NoGradGuard no_grad;
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor x = RandomNormal({2, kSteps, kModelDim}, 1);
    models::State state = model.mixer().InitialState(2);
    std::vector<at::Tensor> steps;
    for (std::int64_t t = 0; t < kSteps; ++t) {
      steps.push_back(models::Step(model.mixer(), model.InputsOf(x.narrow(1, t, 1)), state));
    }
    const models::MixerResult whole =
        models::Forward(model.mixer(), model.InputsOf(x), {.want_final_state = true});
    CHECK(RelativeError(at::stack(steps, 1), whole.y) < kDoubleTolerance);
    std::map<std::string, at::Tensor> stepped;
    models::ForEach(std::as_const(state),
                    [&](const std::string& path, const models::StateTensor& tensor) {
                      stepped[path] = tensor.value;
                    });
    models::ForEach(whole.final_state,
                    [&](const std::string& path, const models::StateTensor& tensor) {
                      CAPTURE(path);
                      REQUIRE(stepped.contains(path));
                      CHECK(RelativeError(stepped.at(path), tensor.value) < kDoubleTolerance);
                      stepped.erase(path);
                    });
    CHECK(stepped.empty());
  }
}

TEST_CASE("mixers: the memory layout of the input does not matter") {
  for (const MixerCase& mixer_case : MixerCases()) {
    CAPTURE(mixer_case.label);
    const TestMixer model(mixer_case, at::kDouble);
    const at::Tensor x = RandomNormal({2, 11, kModelDim}, 1);
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CHECK(RelativeError(model.Run(testing::StridedCopy(x), path), model.Run(x, path)) <
            kSameMaths);
    }
  }
}

}  // namespace
}  // namespace mixerbench::conformance
