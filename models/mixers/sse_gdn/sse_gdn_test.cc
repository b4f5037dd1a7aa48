// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/sse_gdn/sse_gdn.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::sse_gdn {

void Register(MixerRegistry& registry);

namespace {

using testing::RelativeError;

std::unique_ptr<Mixer> Make(Object config, std::int64_t d_model, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = d_model},
                            ParameterScope(parameters));
}

// Element i of the j-th parameter by name becomes 0.8 sin(1.3 i + 0.7 j).
void FillWithSines(const ParameterSet& parameters) {
  std::map<std::string, at::Tensor> by_name;
  for (const Parameter& p : parameters.parameters()) by_name[p.name] = p.tensor;
  double phase = 0;
  for (auto& [name, tensor] : by_name) {
    const at::Tensor i = at::arange(tensor.numel(), at::kDouble);
    tensor.copy_(at::sin(i * 1.3 + phase).mul(0.8).view(tensor.sizes()));
    phase += 0.7;
  }
}

// Against an implementation of its own, token by token in float64.
TEST_CASE("sse_gdn: values of a worked example, with the score on v, on beta and on reads alone") {
  const at::NoGradGuard no_grad;
  struct Expected {
    const char* write_gate;
    std::vector<double> last;
    double sum;
  };
  const Expected cases[] = {
      {"value",
       {0.141601991599, -0.175686692003, -0.306226279857, -0.111257542603},
       0.921374505292},
      {"beta", {0.141734810850, -0.175822377962, -0.306486241375, -0.111365449255}, 0.921278766412},
      {"none",
       {0.146096045901, -0.175377410328, -0.310430526917, -0.115506343954},
       0.853673402161}};
  for (const Expected& expected : cases) {
    for (const char* form : {"varlen", "masking", "loop"}) {
      CAPTURE(expected.write_gate, form);
      ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
      const auto mixer = Make({{"num_partitions", 3},
                               {"top_k", 2},
                               {"lora_rank", 2},
                               {"write_gate", expected.write_gate},
                               {"implementation", form}},
                              4, parameters);
      FillWithSines(parameters);
      const at::Tensor x = at::cos(at::arange(20, at::kDouble) * 0.9).view({1, 5, 4});
      const at::Tensor y = Forward(*mixer, {x}).y;
      CHECK(RelativeError(y[0][4], at::tensor(expected.last)) < 1e-10);
      CHECK(std::abs(y.sum().item<double>() - expected.sum) < 1e-10);
    }
  }
}

TEST_CASE("sse_gdn: state and parameters count as the page says") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"num_partitions", 4}, {"lora_rank", 5}}, 32, parameters);
  const std::int64_t d = 32, heads = 2, keys = 16, values = 16, partitions = 4;
  CHECK(SizeOf(mixer->InitialState(1)).recurrent == (partitions + 1) * heads * keys * values);
  CHECK(parameters.num_elements() == 4 * d * d + 4 * 5 * d + 2 * d * values + 4 * d * heads +
                                         d * partitions + 4 * heads + values);
}

TEST_CASE("sse_gdn: taps show both write strengths and an override replaces both") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"num_v_heads", 4}}, 16, parameters);
  TapRecorder recorder;
  recorder.override_write_gate = at::arange(7).view({1, 7}).ge(4);
  Forward(*mixer, {testing::RandomNormal({1, 7, 16}, 1)}, {.taps = TapScope(recorder)});
  for (const char* name : {"write_gate", "shared.write_gate"}) {
    const at::Tensor& gate = recorder.records.at(name);
    CHECK(gate.sizes() == at::IntArrayRef({1, 7, 4}));
    CHECK(gate.select(1, 5).equal(gate.select(1, 6)));
    CHECK_FALSE(gate.select(1, 2).equal(gate.select(1, 3)));
  }
  CHECK(recorder.records.at("log_decay").sizes() == at::IntArrayRef({1, 7, 4, 5}));
  CHECK(recorder.records.at("state").sizes() == at::IntArrayRef({1, 4, 5 * 8, 8}));
}

TEST_CASE("sse_gdn: value heads come in multiples of key heads") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"num_v_heads", 3}}, 16, parameters),
                    "/mixer/num_v_heads: 3 is not a multiple of num_heads 2");
}

}  // namespace
}  // namespace mixerbench::models::sse_gdn
