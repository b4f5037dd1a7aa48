// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gsa/gsa.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::gsa {

void Register(MixerRegistry& registry);

namespace {

using testing::NewParameters;
using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 16;
constexpr double kTolerance = 1e-12;  // some roundings at 1e-16

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = kModelDim},
                            ParameterScope(parameters));
}

// Values of a loop over tokens in Python, written from the equations of gsa.md.
TEST_CASE("gsa: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"num_slots", 3}}, {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {-0.12594398744317253, 0.2084350368229404, -0.26684030910216494, 0.2944107644310401,
       -0.05535921565743929, 0.0020931908782640257, 0.051414713239870735, -0.09898137378562213,
       -0.07606284205691566, 0.03660901958610034, 0.0070751698089150244, -0.04994178570206877},
      {{"keys",
        {-0.001616765983438866, -0.009763914938199118, 0.003181318487158976, 0.01677527582932465,
         0.028606192503317737, 0.009493055272487805, -0.018631618594475804, 0.0102445239070541,
         -0.018519308643832173, 0.04343528634811884, 0.010636488034756328, 0.0438921017670871}},
       {"values",
        {-0.0028497052175880267, 0.017978953250791734, -0.011949645458311647, 0.02398401120813566,
         0.005518684018976568, 0.01010242708426177, -0.01060903541744699, 0.0063879954981665155,
         0.002471087110238102, 0.0016079840698414978, -0.011674438187107776, 0.0078214236127904}}});
}

TEST_CASE("gsa: parameters and state have the sizes of its page") {
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);  // H 2, K = V = M = 8
  CHECK(parameters.num_elements() == 4 * 16 * 16 + 16 * 2 * 8 + 16);
  const StateSize size = SizeOf(mixer->InitialState(1));
  CHECK(size.recurrent == 2 * 8 * (8 + 8));
  CHECK(size.conv == 0);
}

// Grouped queries are those of a mixer whose key heads are equal in each group.
TEST_CASE("gsa: heads of a group share keys, values and slots") {
  const at::NoGradGuard no_grad;
  ParameterSet shared = NewParameters(), repeated = NewParameters();
  const auto grouped = Make({{"num_heads", 4}, {"num_kv_heads", 2}}, shared);
  const auto full = Make({{"num_heads", 4}}, repeated);
  for (std::size_t i = 0; i < shared.parameters().size(); ++i) {
    const at::Tensor& from = shared.parameters()[i].tensor;
    const at::Tensor to = repeated.parameters()[i].tensor;
    if (from.sizes() == to.sizes()) {
      to.copy_(from);
      continue;
    }
    const auto blocks = from.split_with_sizes({16, 8, 8, 8});  // q; k, v, f of 2 heads of 4
    at::Tensor rows = blocks[0];
    for (std::size_t block = 1; block < blocks.size(); ++block) {
      const at::Tensor heads = blocks[block].unflatten(0, {2, 4}).repeat_interleave(2, 0);
      rows = at::cat({rows, heads.flatten(0, 1)});
    }
    to.copy_(rows);
  }
  const at::Tensor x = RandomNormal({2, 9, kModelDim}, 1);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const MixerOptions options{.path = path, .want_final_state = true};
    const MixerResult a = Forward(*grouped, {x}, options), b = Forward(*full, {x}, options);
    CHECK(RelativeError(a.y, b.y) < kTolerance);
    CHECK(RelativeError(Find(&a.final_state, "values").repeat_interleave(2, 1),
                        Find(&b.final_state, "values")) < kTolerance);
  }
  CHECK(SizeOf(grouped->InitialState(1)).recurrent == 2 * 4 * (4 + 4));
}

TEST_CASE("gsa: slots are written with what they forget and read by probabilities") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({{"num_slots", 5}}, parameters);
  TapRecorder recorder;
  Forward(*mixer, {at::zeros({2, 9, kModelDim}, at::kDouble)}, {.taps = TapScope(recorder)});
  const double start = std::log(0.5) / 8;  // of a logit of 0
  const auto& taps = recorder.records;
  CHECK(taps.at("log_decay").sizes() == at::IntArrayRef({2, 9, 2, 5}));
  CHECK(RelativeError(taps.at("log_decay"), at::full({2, 9, 2, 5}, start, at::kDouble)) < 1e-6);
  CHECK(RelativeError(taps.at("write_gate"),
                      at::full({2, 9, 2}, 1 - std::exp(start), at::kDouble)) < 1e-6);
  CHECK(RelativeError(taps.at("slot_probs"), at::full({2, 9, 2, 5}, 0.2, at::kDouble)) < 1e-6);
  CHECK(taps.at("slot_writes").sizes() == at::IntArrayRef({2, 9, 2, 5}));
  CHECK(taps.at("state").sizes() == at::IntArrayRef({2, 2, 5, 16}));
}

TEST_CASE("gsa: an override of the write gate changes writes and decays together") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);
  TapRecorder recorder;
  recorder.override_write_gate = at::ones({2, 9}, at::TensorOptions(at::kBool));
  Forward(*mixer, {RandomNormal({2, 9, kModelDim}, 1) * 20}, {.taps = TapScope(recorder)});
  const auto& taps = recorder.records;
  const at::Tensor& gate = taps.at("write_gate");
  CHECK(gate.equal(gate.narrow(1, 0, 1).expand_as(gate)));
  CHECK(RelativeError(taps.at("slot_writes"), 1 - taps.at("log_decay").exp()) < 1e-5);
}

TEST_CASE("gsa: impossible options are errors that name them") {
  ParameterSet parameters = NewParameters();
  CHECK_THROWS_WITH(Make({{"num_slots", -1}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/num_slots: "));
  CHECK_THROWS_WITH(Make({{"gate_logit_normalizer", 0}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/gate_logit_normalizer: "));
}

}  // namespace
}  // namespace mixerbench::models::gsa
