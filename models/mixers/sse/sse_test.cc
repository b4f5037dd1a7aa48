// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/sse/sse.h"

#include <map>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::sse {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

std::unique_ptr<Mixer> Make(Object config, std::int64_t d_model, ParameterSet& parameters) {
  MixerRegistry registry("mixer");
  Register(registry);
  config["name"] = "sse";
  return CreateMixer(config, "/mixer", {.d_model = d_model, .registry = &registry},
                     ParameterScope(parameters));
}

struct TestSse {
  ParameterSet parameters{1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble};
  std::unique_ptr<Mixer> mixer;

  explicit TestSse(Object config, std::int64_t d_model = 16)
      : mixer(Make(std::move(config), d_model, parameters)) {}

  // Element i of the j-th parameter by name becomes 0.8 sin(1.3 i + 0.7 j).
  void FillWithSines() {
    const at::NoGradGuard no_grad;
    std::map<std::string, at::Tensor> by_name;
    for (const Parameter& p : parameters.parameters()) by_name[p.name] = p.tensor;
    double phase = 0;
    for (auto& [name, tensor] : by_name) {
      const at::Tensor i = at::arange(tensor.numel(), at::kDouble);
      tensor.copy_(at::sin(i * 1.3 + phase).mul(0.8).view(tensor.sizes()));
      phase += 0.7;
    }
  }
};

// Against an implementation of its own, token by token in float64.
TEST_CASE("sse: values, state and balance loss of a worked example") {
  const at::NoGradGuard no_grad;
  for (const char* form : {"varlen", "masking", "loop"}) {
    CAPTURE(form);
    TestSse sse({{"num_partitions", 3},
                 {"top_k", 2},
                 {"lora_rank", 2},
                 {"gate_low_rank_dim", 3},
                 {"gate_logit_normalizer", 2},
                 {"implementation", form}},
                /*d_model=*/4);
    sse.FillWithSines();
    const at::Tensor x = at::cos(at::arange(20, at::kDouble) * 0.9).view({1, 5, 4});
    for (const bool want_final_state : {false, true}) {
      const auto result = Forward(*sse.mixer, {x}, {.want_final_state = want_final_state});
      CHECK(RelativeError(result.y[0][4], at::tensor({-0.091902419675, 0.490919898708,
                                                      0.551910733311, 0.026238860544})) < 1e-10);
      CHECK(std::abs(result.y.sum().item<double>() - 2.850396067414) < 1e-10);
      CHECK(std::abs(result.losses.at("balance").item<double>() - 0.952664144323) < 1e-6);
      if (!want_final_state) continue;
      const at::Tensor routed = Find(&result.final_state, "routed");
      CHECK(std::abs(routed.sum().item<double>() - 2.614718243678) < 1e-10);
      const at::Tensor shared = Find(&result.final_state, "shared");
      CHECK(std::abs(shared.sum().item<double>() - 2.193033296049) < 1e-10);
    }
  }
}

TEST_CASE("sse: state and parameters count as the page says") {
  const TestSse sse({{"num_heads", 2}, {"num_partitions", 4}, {"lora_rank", 5}}, /*d_model=*/32);
  const std::int64_t d = 32, heads = 2, keys = 16, values = 16, partitions = 4;
  const StateSize size = SizeOf(sse.mixer->InitialState(1));
  CHECK(size.recurrent == (partitions + 1) * heads * keys * values);
  CHECK(size.conv == 0);
  CHECK(sse.parameters.num_elements() ==
        4 * d * d + 4 * 5 * d + 2 * d * values + 64 * d + d * partitions + 2 * d + values);
  CHECK(sse.mixer->traits().losses == std::map<std::string, double>{{"balance", 0.01}});
}

TEST_CASE("sse: taps tell the router, frozen partitions do not decay, rows of states are joined") {
  const at::NoGradGuard no_grad;
  const TestSse sse({{"num_partitions", 3}, {"top_k", 2}});
  TapRecorder recorder;
  const at::Tensor x = RandomNormal({2, 9, 16}, 1);
  Forward(*sse.mixer, {x}, {.taps = TapScope(recorder)});
  const at::Tensor& router = recorder.records.at("router");
  const at::Tensor& indices = recorder.records.at("router_indices");
  CHECK(router.sizes() == at::IntArrayRef({2, 9, 3}));
  CHECK(router.ne(0).sum(-1).eq(2).all().item<bool>());
  CHECK(RelativeError(recorder.records.at("router_scores").gather(2, indices.to(at::kLong)),
                      router.gather(2, indices.to(at::kLong))) == 0);
  CHECK(RelativeError(recorder.records.at("write_gate"), router.sum(-1, true).expand({2, 9, 2})) <
        1e-6);
  const at::Tensor log_decay = recorder.records.at("log_decay").view({2, 9, 2, 4, 8});
  for (std::int64_t i = 0; i < 3; ++i) {
    const at::Tensor frozen = router.select(2, i).eq(0);
    CHECK(log_decay.select(3, i).eq(0).flatten(2).all(-1).equal(frozen));
  }
  CHECK(log_decay.select(3, 3).lt(0).all().item<bool>());
  CHECK(recorder.records.at("state").sizes() == at::IntArrayRef({2, 2, 4 * 8, 8}));
}

// More readers than writers: what is read alone does not decay; the loss is that of the writers.
TEST_CASE("sse: readers and writers are the first of one order") {
  const at::NoGradGuard no_grad;
  const TestSse sse({{"num_readers", 3}});
  TapRecorder recorder;
  const auto result =
      Forward(*sse.mixer, {RandomNormal({2, 9, 16}, 1)}, {.taps = TapScope(recorder)});
  const at::Tensor written = recorder.records.at("router").ne(0);
  const at::Tensor read = recorder.records.at("router_reads");
  CHECK(written.sum(-1).eq(1).all().item<bool>());
  CHECK(read.sum(-1).eq(3).all().item<bool>());
  CHECK(read.masked_select(written).eq(1).all().item<bool>());
  const at::Tensor log_decay = recorder.records.at("log_decay").view({2, 9, 2, 5, 8});
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(log_decay.select(3, i).ne(0).flatten(2).all(-1).equal(written.select(2, i)));
  }
  const at::Tensor p = recorder.records.at("router_scores").mean(at::IntArrayRef({0, 1}));
  const at::Tensor f = written.to(at::kFloat).mean(at::IntArrayRef({0, 1}));
  CHECK(RelativeError(result.losses.at("balance"), (p * f).sum() * 4) < 1e-6);
}

TEST_CASE("sse: an override acts on the write of the chosen tokens alone") {
  const at::NoGradGuard no_grad;
  const TestSse sse({{"use_shared", false}, {"output_gate", "none"}});
  const at::Tensor x = RandomNormal({1, 6, 16}, 1);
  const auto written = [&](bool replaced) {
    TapRecorder recorder;
    at::Tensor mask = at::zeros({1, 6}, at::kBool);
    mask[0][5].fill_(replaced);
    recorder.override_write_gate = mask;
    Forward(*sse.mixer, {x}, {.taps = TapScope(recorder)});
    return recorder;
  };
  const TapRecorder before = written(false), after = written(true);
  CHECK(before.records.at("router").equal(after.records.at("router")));
  CHECK(before.records.at("log_decay").equal(after.records.at("log_decay")));
  const at::Tensor mean = before.records.at("write_gate").mean(1);
  CHECK(RelativeError(after.records.at("write_gate").select(1, 5), mean) < 1e-6);
  CHECK(RelativeError(after.records.at("state"), before.records.at("state")) > 1e-3);
}

TEST_CASE("sse: impossible options are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto message = [&](Object config, const std::string& start) {
    CHECK_THROWS_WITH(Make(std::move(config), 16, parameters), Catch::Matchers::StartsWith(start));
  };
  message({{"top_k", 5}}, "/mixer/top_k: 5 is not in 1..4");
  message({{"num_readers", 5}}, "/mixer/num_readers: 5 is not in 0..4");
  message({{"write_gate", "beta"}}, "/mixer/write_gate: ");
  message({{"use_shared", false}, {"conv_size", 4}}, "/mixer/conv_size: ");
  message({{"implementation", "fast"}}, "/mixer/implementation: ");
}

}  // namespace
}  // namespace mixerbench::models::sse
