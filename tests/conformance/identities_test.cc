// What one mixer becomes when a part of it is switched off must equal another mixer.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_inv.h>
#include <ATen/ops/tensor.h>

#include "base/check.h"
#include "kernels/rope/rotary.h"
#include "models/blocks/rotary_state.h"
#include "tests/conformance/mixer_cases.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::conformance {
namespace {

using models::ExecutionPath;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kDoubleTolerance = 1e-10;
constexpr std::int64_t kSeqLen = 67;

at::Tensor Parameter(const TestMixer& model, const std::string& name) {
  for (const models::Parameter& parameter : model.parameters()) {
    if (parameter.name == name) return parameter.tensor;
  }
  Require(false, "no parameter " + name);
  return {};
}

// Copies every parameter of `from` that `to` has in the same shape; of larger matrices the first
// rows: projections list what mixers have in common first.
void CopyParameters(const TestMixer& from, const TestMixer& to) {
  const at::NoGradGuard no_grad;
  for (const models::Parameter& target : to.parameters()) {
    const at::Tensor source = Parameter(from, target.name);
    target.tensor.copy_(source.narrow(0, 0, target.tensor.size(0)));
  }
}

TEST_CASE("identity: a gated delta net without decay is a delta net") {
  const TestMixer gated(CaseOf({{"name", "gated_delta_net"}, {"expand_v", 1}}), at::kDouble);
  const TestMixer plain(CaseOf({{"name", "delta_net"}}), at::kDouble);
  {
    const at::NoGradGuard no_grad;
    Parameter(gated, "A_log").fill_(-std::numeric_limits<double>::infinity());
  }
  CopyParameters(gated, plain);
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(gated.Run(x, path), plain.Run(x, path)) < kDoubleTolerance);
  }
}

TEST_CASE("identity: forgetting attention that never forgets is attention") {
  const TestMixer fox(CaseOf({{"name", "fox"},
                              {"forget_gate", "fixed"},
                              {"min_timescale", 1e18},
                              {"max_timescale", 1e18}}),
                      at::kDouble);
  const TestMixer plain(CaseOf({{"name", "attention"}, {"qkv_bias", false}, {"out_bias", false}}),
                        at::kDouble);
  {
    const at::NoGradGuard no_grad;
    Parameter(plain, "qkv_proj.weight").copy_(Parameter(fox, "qkv_proj.weight"));
    Parameter(plain, "out_proj.weight").copy_(Parameter(fox, "o_proj.weight"));
  }
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(fox.Run(x, path), plain.Run(x, path)) < kDoubleTolerance);
  }
}

TEST_CASE("identity: a window as long as the sequence is attention") {
  for (const Object& options : {Object{}, Object{{"position", "rope"}, {"qk_norm", true}},
                                Object{{"position", "alibi"}, {"sinks", true}}}) {
    Object window_config = options, plain_config = options;
    window_config["name"] = "sliding_window";
    window_config["window"] = kSeqLen;
    plain_config["name"] = "attention";
    const TestMixer window(CaseOf(window_config), at::kDouble);
    const TestMixer plain(CaseOf(plain_config), at::kDouble);
    CopyParameters(window, plain);
    const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CHECK(RelativeError(window.Run(x, path), plain.Run(x, path)) < kDoubleTolerance);
    }
  }
}

TEST_CASE("identity: gated linear attention without decay is linear attention") {
  const TestMixer gated(CaseOf({{"name", "gla"}, {"expand_k", 1}, {"output_gate", "none"}}),
                        at::kDouble);
  const TestMixer plain(CaseOf({{"name", "linear_attention"}, {"feature_map", "identity"}}),
                        at::kDouble);
  {
    const at::NoGradGuard no_grad;
    Parameter(gated, "decay_proj.weight").zero_();
    Parameter(gated, "decay_proj.bias").fill_(1e4);  // log sigmoid(1e4) = 0
  }
  CopyParameters(gated, plain);
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(gated.Run(x, path), plain.Run(x, path)) < kDoubleTolerance);
  }
}

TEST_CASE("identity: gated linear attention whose channels share a decay is a simple_gla") {
  const Object shared = {{"output_gate", "none"}};
  Object vector_config = shared, scalar_config = shared;
  vector_config["name"] = "gla";
  vector_config["expand_k"] = 1;
  scalar_config["name"] = "simple_gla";
  scalar_config["conv_size"] = 0;
  const TestMixer vector(CaseOf(vector_config), at::kDouble);
  const TestMixer scalar(CaseOf(scalar_config), at::kDouble);
  {
    const at::NoGradGuard no_grad;
    const auto copy = [&](const std::string& name, std::int64_t rows) {
      Parameter(scalar, name).narrow(0, 0, rows).copy_(Parameter(vector, name).narrow(0, 0, rows));
    };
    copy("in_proj.weight", 3 * kModelDim);
    copy("o_norm.weight", kModelDim / 2);
    copy("o_proj.weight", kModelDim);
    // Decays that depend on the bias alone, one for each of the two heads.
    Parameter(vector, "decay_proj.weight").zero_();
    Parameter(scalar, "in_proj.weight").narrow(0, 3 * kModelDim, 2).zero_();
    for (std::int64_t head = 0; head < 2; ++head) {
      const double bias = head == 0 ? 0.5 : -2;
      const std::int64_t head_k_dim = kModelDim / 2;
      Parameter(vector, "decay_proj.bias").narrow(0, head * head_k_dim, head_k_dim).fill_(bias);
      Parameter(scalar, "decay_bias")[head].fill_(bias);
    }
  }
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(vector.Run(x, path), scalar.Run(x, path)) < kDoubleTolerance);
  }
}

// What is erased in two pieces, the second with a carried state. [B,T,H]
at::Tensor Erased(const TestMixer& model, const at::Tensor& x, ExecutionPath path) {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kCut = 5;
  models::TapRecorder first, second;
  const auto begun =
      models::Forward(model.mixer(), model.InputsOf(x.narrow(1, 0, kCut)),
                      {.path = path, .want_final_state = true, .taps = models::TapScope(first)});
  models::Forward(
      model.mixer(), model.InputsOf(x.narrow(1, kCut, x.size(1) - kCut)),
      {.path = path, .initial_state = &begun.final_state, .taps = models::TapScope(second)});
  return at::cat({first.records.at("erase"), second.records.at("erase")}, 1);
}

constexpr double kTapTolerance = 1e-6;  // taps are float32 copies

TEST_CASE("identity: one partition or memory of all tokens is the mixer inside") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  const auto check = [&](const TestMixer& routed, const TestMixer& plain) {
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CHECK(RelativeError(routed.Run(x, path), plain.Run(x, path)) < kDoubleTolerance);
    }
  };
  for (const char* form : {"varlen", "masking", "loop"}) {
    CAPTURE(form);
    const Object one_partition = {{"num_partitions", 1},
                                  {"use_shared", false},
                                  {"implementation", form},
                                  {"output_gate", "none"}};
    Object sse_config = one_partition, sse_gdn_config = one_partition;
    sse_config["name"] = "sse";
    sse_config["k_activation"] = "silu";
    sse_gdn_config["name"] = "sse_gdn";

    const TestMixer sse(CaseOf(sse_config), at::kDouble);
    const TestMixer gla(
        CaseOf({{"name", "gla"}, {"expand_k", 1}, {"conv_size", 2}, {"output_gate", "none"}}),
        at::kDouble);
    for (const models::Parameter& target : gla.parameters()) {
      if (target.name == "conv.weight") {  // silu alone, as in sse
        target.tensor.zero_().select(1, 1).fill_(1);
        continue;
      }
      const at::Tensor source = Parameter(sse, target.name);
      target.tensor.copy_(source.narrow(0, 0, target.tensor.size(0)));
    }
    Parameter(sse, "lora_q.weight").zero_();
    Parameter(sse, "lora_k.weight").zero_();
    check(sse, gla);

    const TestMixer sse_gdn(CaseOf(sse_gdn_config), at::kDouble);
    const TestMixer without_conv(
        CaseOf({{"name", "gated_delta_net"}, {"expand_v", 1}, {"conv_size", 0}}), at::kDouble);
    Parameter(sse_gdn, "lora_q.weight").zero_();
    Parameter(sse_gdn, "lora_k.weight").zero_();
    CopyParameters(sse_gdn, without_conv);
    check(sse_gdn, without_conv);
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CHECK(RelativeError(Erased(sse_gdn, x, path), Erased(without_conv, x, path)) < kTapTolerance);
    }

    const TestMixer mom(CaseOf({{"name", "mom"},
                                {"num_memories", 1},
                                {"top_k", 1},
                                {"use_shared", false},
                                {"implementation", form},
                                {"output_gate", "none"}}),
                        at::kDouble);
    const TestMixer gdn(CaseOf({{"name", "gated_delta_net"}, {"expand_v", 1}}), at::kDouble);
    CopyParameters(mom, gdn);
    check(mom, gdn);
    for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      CHECK(RelativeError(Erased(mom, x, path), Erased(gdn, x, path)) < kTapTolerance);
    }

    const TestMixer mom_of_gla(CaseOf({{"name", "mom"},
                                       {"memory", "gla"},
                                       {"num_memories", 1},
                                       {"top_k", 1},
                                       {"use_shared", false},
                                       {"implementation", form},
                                       {"output_gate", "none"}}),
                               at::kDouble);
    const TestMixer gla_with_conv(
        CaseOf({{"name", "gla"}, {"expand_k", 1}, {"conv_size", 4}, {"output_gate", "none"}}),
        at::kDouble);
    for (const models::Parameter& target : gla_with_conv.parameters()) {
      const bool is_decay = target.name.starts_with("decay_proj.");
      const at::Tensor source =
          Parameter(mom_of_gla, is_decay ? "memories.0." + target.name : target.name);
      target.tensor.copy_(source.narrow(0, 0, target.tensor.size(0)));
    }
    check(mom_of_gla, gla_with_conv);
  }
}

TEST_CASE("identity: a mixer that forgets everything answers from the current token alone") {
  const TestMixer gated(CaseOf({{"name", "gla"}, {"gate_logit_normalizer", 1}}), at::kDouble);
  {
    const at::NoGradGuard no_grad;
    Parameter(gated, "decay_proj.weight").zero_();
    Parameter(gated, "decay_proj.bias").fill_(-1e4);
  }
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  const at::Tensor alone =
      gated.Run(x.reshape({-1, 1, kModelDim}), ExecutionPath::kFast).view(x.sizes());
  CHECK(RelativeError(gated.Run(x, ExecutionPath::kFast), alone) < kDoubleTolerance);
}

// Options under which the delta rules have the same layout.
Object DeltaRule(const std::string& name) {
  Object config = {{"name", name}, {"expand_v", 1}};
  if (name == "kda" || name == "gated_delta_net_2") config["output_gate"] = "none";
  if (name == "gated_delta_product") config["use_output_gate"] = false;
  return config;
}

TEST_CASE("identity: a simple_gla whose gates are constant is lightning attention") {
  const TestMixer gated(CaseOf({{"name", "simple_gla"}, {"conv_size", 0}, {"output_gate", "none"}}),
                        at::kDouble);
  const TestMixer constant(CaseOf({{"name", "lightning"}, {"output_gate", "none"}}), at::kDouble);
  {
    const at::NoGradGuard no_grad;
    // The first of two layers: head 0 never decays, head 1 by -8/2 a token; z/16 for small z.
    Parameter(gated, "in_proj.weight").narrow(0, 3 * kModelDim, 2).zero_();
    Parameter(gated, "decay_bias").copy_(at::tensor({1e4, -64.0}, at::kDouble));
  }
  CopyParameters(gated, constant);
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(gated.Run(x, path), constant.Run(x, path)) < kDoubleTolerance);
  }
}

// Takes tokens whose queries and keys stand turned back by their position, so that the rotation
// undoes it. The projection to q, k and v has to be square: what it makes of those tokens is
// chosen, and the tokens follow.
at::Tensor WithKeysTurnedBack(const at::Tensor& x, const at::Tensor& in_proj,
                              std::int64_t head_k_dim, ExecutionPath path) {
  const at::Tensor columns = x.matmul(in_proj.t());
  const auto parts = columns.split(kModelDim / 2, -1);  // q and k, v
  // With the halves of a head swapped, to turn is to turn back.
  const auto swapped = [&](const at::Tensor& heads) { return heads.roll(head_k_dim / 2, -1); };
  const at::Tensor heads = parts[0].unflatten(-1, {-1, head_k_dim});
  const at::Tensor turned =
      swapped(kernels::RotateHalf(swapped(heads), 0, head_k_dim, path)).flatten(-2);
  return at::cat({turned, parts[1]}, -1).matmul(at::linalg_inv(in_proj).t());
}

TEST_CASE("identity: a retnet without its rotation is a simple_gla whose gates are constant") {
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    for (const std::int64_t num_heads : {1, 2}) {  // of two and of one frequency
      CAPTURE(num_heads, path == ExecutionPath::kFast);
      const Object common = {
          {"num_heads", num_heads}, {"expand_k", 0.25}, {"expand_v", 0.5}, {"output_gate", "none"}};
      Object retnet_config = common, gated_config = common;
      retnet_config["name"] = "retnet";
      retnet_config["first_decay_exponent"] = 2;
      gated_config["name"] = "simple_gla";
      gated_config["conv_size"] = 0;
      gated_config["gate_logit_normalizer"] = 1;
      const TestMixer retnet(CaseOf(retnet_config), at::kDouble);
      const TestMixer gated(CaseOf(gated_config), at::kDouble);
      {
        const at::NoGradGuard no_grad;
        Parameter(gated, "in_proj.weight").narrow(0, kModelDim, num_heads).zero_();
        for (std::int64_t head = 0; head < num_heads; ++head) {
          // sigmoid(log(2^e - 1)) = 1 - 2^-e
          Parameter(gated, "decay_bias")[head].fill_(std::log(std::exp2(2 + head) - 1));
        }
      }
      CopyParameters(gated, retnet);
      const auto run = [&](const TestMixer& model, const at::Tensor& x) {
        return models::Forward(model.mixer(), {x}, {.path = path, .want_final_state = true});
      };
      const auto unturned = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
        const at::Tensor& in_proj = Parameter(retnet, "in_proj.weight");
        const std::int64_t head_k_dim = kModelDim / 4 / num_heads;
        const auto result = run(retnet, WithKeysTurnedBack(x[0], in_proj, head_k_dim, path));
        const at::Tensor state = models::Find(&result.final_state, "state");
        return {result.y, models::TurnedBack(state, -kSeqLen, path)};
      };
      const auto plain = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
        const auto result = run(gated, x[0]);
        return {result.y, models::Find(&result.final_state, "state")};
      };
      const std::vector<at::Tensor> inputs = {RandomNormal({2, kSeqLen, kModelDim}, 1)};
      CHECK(testing::RelativeError(testing::Differentiate(unturned, inputs),
                                   testing::Differentiate(plain, inputs)) < kDoubleTolerance);
      // Both as functions of the projection, from which the tokens of the one follow.
      for (const models::Parameter& parameter : retnet.parameters()) {
        const at::Tensor expected = Parameter(gated, parameter.name).grad();
        CHECK(RelativeError(parameter.tensor.grad(),
                            expected.narrow(0, 0, parameter.tensor.size(0))) < kDoubleTolerance);
      }
    }
  }
}

TEST_CASE("identity: a log_linear_gdn whose levels weigh the same is a gated delta net") {
  const Object tiny_eps = {{"norm_eps", 1e-30}};  // the norm takes out the weight, softplus(0)
  Object levels_config = tiny_eps, plain_config = tiny_eps;
  levels_config["name"] = "log_linear_gdn";
  levels_config["use_output_gate"] = false;
  plain_config["name"] = "gated_delta_net";
  plain_config["expand_v"] = 1;
  const TestMixer levels(CaseOf(levels_config), at::kDouble);
  const TestMixer plain(CaseOf(plain_config), at::kDouble);
  {
    const at::NoGradGuard no_grad;
    Parameter(levels, "level_scale").zero_();
  }
  CopyParameters(levels, plain);
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(levels.Run(x, path), plain.Run(x, path)) < kDoubleTolerance);
    CHECK(RelativeError(Erased(levels, x, path), Erased(plain, x, path)) < kTapTolerance);
  }
}

TEST_CASE("identity: a kda whose channels share a decay is a gated delta net") {
  const TestMixer vector(CaseOf(DeltaRule("kda")), at::kDouble);
  const TestMixer scalar(CaseOf(DeltaRule("gated_delta_net")), at::kDouble);
  {
    const at::NoGradGuard no_grad;
    for (const char* name : {"conv.weight", "o_norm.weight", "o_proj.weight", "A_log"}) {
      Parameter(scalar, name).copy_(Parameter(vector, name));
    }
    // Rows: q, k, v; of one then beta and decay, of the other inner decay logits and beta.
    const std::int64_t head_dim = kModelDim / 2;
    const at::Tensor from = Parameter(vector, "in_proj.weight");
    const at::Tensor to = Parameter(scalar, "in_proj.weight");
    to.narrow(0, 0, 3 * kModelDim).copy_(from.narrow(0, 0, 3 * kModelDim));
    to.narrow(0, 3 * kModelDim, 2).copy_(from.narrow(0, 3 * kModelDim + head_dim, 2));
    to.narrow(0, 3 * kModelDim + 2, 2).copy_(from.narrow(0, 3 * kModelDim, 2));
    const at::Tensor spread = Parameter(vector, "decay_proj.weight").zero_();
    const at::Tensor bias = Parameter(vector, "dt_bias");
    for (std::int64_t head = 0; head < 2; ++head) {
      spread.narrow(0, head * head_dim, head_dim).select(1, head).fill_(1);
      bias.narrow(0, head * head_dim, head_dim).fill_(0.3 - static_cast<double>(head));
      Parameter(scalar, "dt_bias")[head].fill_(0.3 - static_cast<double>(head));
    }
  }
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(vector.Run(x, path), scalar.Run(x, path)) < kDoubleTolerance);
  }
}

TEST_CASE("identity: a gated delta net 2 whose gates are equal is a kda") {
  const TestMixer split(CaseOf(DeltaRule("gated_delta_net_2")), at::kDouble);
  const TestMixer joined(CaseOf(DeltaRule("kda")), at::kDouble);
  {
    const at::NoGradGuard no_grad;
    for (const char* name : {"conv.weight", "o_norm.weight", "o_proj.weight", "A_log", "dt_bias",
                             "decay_proj.weight"}) {
      Parameter(joined, name).copy_(Parameter(split, name));
    }
    const std::int64_t head_dim = kModelDim / 2, common = 3 * kModelDim + head_dim;
    const at::Tensor to = Parameter(joined, "in_proj.weight");
    const at::Tensor from = Parameter(split, "in_proj.weight");
    to.narrow(0, 0, common).copy_(from.narrow(0, 0, common));
    for (std::int64_t head = 0; head < 2; ++head) {
      for (const std::int64_t first : {common, common + kModelDim}) {  // erase gate, write gate
        from.narrow(0, first + head * head_dim, head_dim)
            .copy_(to.narrow(0, common + head, 1).expand({head_dim, -1}));
      }
    }
  }
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(split.Run(x, path), joined.Run(x, path)) < kDoubleTolerance);
  }
}

TEST_CASE("identity: a gated delta product of one step is a gated delta net") {
  Object config = DeltaRule("gated_delta_product");
  config["num_householder"] = 1;
  config["allow_neg_eigval"] = false;
  const TestMixer product(CaseOf(config), at::kDouble);
  const TestMixer plain(CaseOf(DeltaRule("gated_delta_net")), at::kDouble);
  CopyParameters(product, plain);
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(product.Run(x, path), plain.Run(x, path)) < kDoubleTolerance);
    CHECK(RelativeError(Erased(product, x, path), Erased(plain, x, path)) < kTapTolerance);
  }
}

TEST_CASE("identity: attention with one key head per query head equals the grouped form") {
  const TestMixer grouped(CaseOf({{"name", "attention"}, {"num_kv_heads", 2}}), at::kDouble);
  const TestMixer full(CaseOf({{"name", "attention"}}), at::kDouble);
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  CHECK(RelativeError(grouped.Run(x, ExecutionPath::kFast), full.Run(x, ExecutionPath::kFast)) ==
        0);
}

TEST_CASE("identity: a hybrid of one mixer is that mixer") {
  const TestMixer hybrid(CaseOf({{"name", "hybrid"}, {"pattern", Array{Object{{"name", "gla"}}}}}),
                         at::kDouble);
  const TestMixer plain(CaseOf({{"name", "gla"}}), at::kDouble);
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  CHECK(testing::BitwiseEqual(hybrid.Run(x, ExecutionPath::kFast),
                              plain.Run(x, ExecutionPath::kFast)));
}

}  // namespace
}  // namespace mixerbench::conformance
