// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gated_delta_net/gated_delta_net.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/silu.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::gated_delta_net {

void Register(MixerRegistry& registry);

namespace {

constexpr std::int64_t kModelDim = 16;

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  MixerRegistry registry("mixer");
  Register(registry);
  config["name"] = "gated_delta_net";
  return CreateMixer(config, "/mixer", {.d_model = kModelDim, .registry = &registry},
                     ParameterScope(parameters));
}

// Values of a loop over tokens in Python, written from the equations of gated_delta_net.md.
TEST_CASE("gated delta net: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"num_v_heads", 4}, {"expand_v", 1}, {"conv_size", 2}},
                                {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "conv.weight", "A_log", "dt_bias",
                                            "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {-0.08403131472435418, -0.18554851897512864, -0.2037788855260878, -0.13053938177463154,
       0.09129720294614668, -0.17771947321983858, -0.3669635216983922, -0.3914892989546186,
       0.025506195414229403, 0.27781834820681606, 0.4054266671723418, 0.3510518303871837},
      {-0.006765570064079546, -0.012133877413811004, 0.042116621447404176, 0.01231169562935233,
       0.015847366931920633, -0.013124615433944952, -0.03161671566453825, 0.018007308770830538,
       0.010750273526101537, -0.011383627406965819, -0.004571808427816725, 0.029688953952329754,
       -0.014694366750520067, 0.02071866820166195, -0.03152610641439078, 0.0008303623414976192});
}

TEST_CASE("gated delta net: gates are per value head and decays start between -1.7 and 0") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kZoology, 2, at::kCPU, at::kFloat);
  const auto mixer = Make({{"num_v_heads", 4}}, parameters);
  TapRecorder recorder;
  Forward(*mixer, {testing::RandomNormal({2, 9, kModelDim}, 1, at::kFloat)},
          {.taps = TapScope(recorder)});
  const at::Tensor& log_decay = recorder.records.at("log_decay");
  CHECK(log_decay.sizes() == at::IntArrayRef({2, 9, 4}));
  CHECK(recorder.records.at("write_gate").sizes() == at::IntArrayRef({2, 9, 4}));
  CHECK(recorder.records.at("state").sizes() == at::IntArrayRef({2, 4, 8, 16}));
  CHECK(log_decay.max().item<double>() < 0);
  CHECK(log_decay.min().item<double>() > -16 * 0.15);  // A < 16, dt < 0.1 and logits near 0
}

// From the state that a call of the tokens before leaves, and keys by hand.
TEST_CASE("gated delta net: what is erased is what a key recalls of the decayed state") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kHeads = 2, kSeqLen = 7;
  const at::Tensor x = testing::RandomNormal({2, kSeqLen, kModelDim}, 1);
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"conv_size", 0}, {"num_v_heads", 2 * kHeads}}, parameters);
  at::Tensor weight;  // rows q, k, v, gates
  for (const Parameter& parameter : parameters.parameters()) {
    if (parameter.name == "in_proj.weight") weight = parameter.tensor;
  }
  const at::Tensor z = at::silu(x.matmul(weight.narrow(0, kModelDim, kModelDim).t()))
                           .unflatten(-1, {kHeads, kModelDim / kHeads});
  const at::Tensor k =
      (z / (z.square().sum(-1, /*keepdim=*/true) + 1e-6).sqrt()).repeat_interleave(2, /*dim=*/2);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    TapRecorder recorder;
    Forward(*mixer, {x}, {.path = path, .taps = TapScope(recorder)});
    const at::Tensor& erase = recorder.records.at("erase");
    const at::Tensor& log_decay = recorder.records.at("log_decay");
    CHECK(erase.select(1, 0).count_nonzero().item<std::int64_t>() == 0);
    for (std::int64_t t = 1; t < kSeqLen; ++t) {
      CAPTURE(t, path == ExecutionPath::kFast);
      const State before =
          Forward(*mixer, {x.narrow(1, 0, t)}, {.want_final_state = true}).final_state;
      const at::Tensor recalled =
          k.select(1, t).unsqueeze(-2).matmul(Find(&before, "state")).squeeze(-2);
      CHECK(testing::RelativeError(erase.select(1, t),
                                   recalled.norm(2, -1) * log_decay.select(1, t).exp()) < 1e-6);
    }
  }
}

TEST_CASE("gated delta net: value heads come in multiples of key heads") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  CHECK_THROWS_WITH(Make({{"num_v_heads", 3}}, parameters),
                    "/mixer/num_v_heads: 3 is not a multiple of num_heads 2");
  CHECK_THROWS_WITH(Make({{"num_v_heads", -4}}, parameters),
                    "/mixer/num_v_heads: -4 is not in 0..65536");
}

}  // namespace
}  // namespace mixerbench::models::gated_delta_net
