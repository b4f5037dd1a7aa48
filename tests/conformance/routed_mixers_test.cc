// Mixers with routers against their pages: every token by itself, every state by itself, in plain
// operations. Outputs and the gradient of every parameter.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "tests/conformance/mixer_cases.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::conformance {
namespace {

using models::ExecutionPath;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kTolerance = 1e-9;  // float64, sums in another order, divided by norms
constexpr std::int64_t kSeqLen = 11;
constexpr std::int64_t kHeads = 2, kWidth = kModelDim / kHeads;  // of keys and values

using Weights = std::map<std::string, at::Tensor>;
using SlowMixer = std::function<at::Tensor(const Weights& weights, const at::Tensor& x)>;

// "y", "dx" and the gradients of all parameters of <y, fixed weights>.
Results GradientsOf(const TestMixer& model,
                    const std::function<at::Tensor(const at::Tensor&)>& run) {
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1).requires_grad_(true);
  const at::Tensor y = run(x);
  (y * RandomNormal(y.sizes(), 2)).sum().backward();
  Results results = {{"y", y.detach()}, {"dx", x.grad()}};
  for (const models::Parameter& parameter : model.parameters()) {
    at::Tensor leaf = parameter.tensor;
    REQUIRE(leaf.grad().defined());
    results["d" + parameter.name] = leaf.grad().clone();
    leaf.mutable_grad().reset();
  }
  return results;
}

void CheckAgainst(const Object& config, const SlowMixer& slow) {
  const TestMixer model(CaseOf(config), at::kDouble);
  Weights weights;
  for (const models::Parameter& parameter : model.parameters()) {
    weights[parameter.name] = parameter.tensor;
  }
  const Results expected =
      GradientsOf(model, [&](const at::Tensor& x) { return slow(weights, x); });
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const Results actual = GradientsOf(model, [&](const at::Tensor& x) {
      return models::Forward(model.mixer(), model.InputsOf(x), {.path = path}).y;
    });
    const Worst worst = WorstError(actual, expected, "");
    CAPTURE(path == ExecutionPath::kFast, worst.name);
    CHECK(worst.error < kTolerance);
  }
}

at::Tensor Project(const at::Tensor& x, const at::Tensor& weight) { return x.matmul(weight.t()); }

at::Tensor Heads(const at::Tensor& x, std::int64_t heads) { return x.unflatten(-1, {heads, -1}); }

at::Tensor Unit(const at::Tensor& x) {
  return x / (x.square().sum(-1, /*keepdim=*/true) + 1e-6).sqrt();
}

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight) {
  return x / (x.square().mean(-1, /*keepdim=*/true) + 1e-5).sqrt() * weight;
}

// 1 for the k largest of x [...,N].
at::Tensor Largest(const at::Tensor& x, std::int64_t k) {
  const auto order = at::sort(x.detach(), /*stable=*/true, /*dim=*/-1, /*descending=*/true);
  return at::zeros(x.sizes(), x.options().requires_grad(false))
      .scatter_(-1, std::get<1>(order).narrow(-1, 0, k), 1);
}

// Causal and depthwise: the last tap is the token's own.
at::Tensor Convolved(const at::Tensor& x, const at::Tensor& weight) {
  const std::int64_t width = weight.size(1);
  const at::Tensor padded = at::constant_pad_nd(x.transpose(1, 2), {width - 1, 0});
  return at::conv1d(padded, weight.unsqueeze(1), {}, /*stride=*/1, at::IntArrayRef{0},
                    /*dilation=*/1, /*groups=*/weight.size(0))
      .transpose(1, 2);
}

// A token that one state gets: q, k [B,H,K], v [B,H,V]; decay [B,H] or [B,H,K], the factor itself;
// beta [B,H] of a delta rule.
struct Token {
  at::Tensor q, k, v, decay, beta = {};
};

// Writes the token to `state` [B,H,K,V] where `writes` [B] is 1, then reads. -> [B,H,V]
at::Tensor Visit(const Token& token, const at::Tensor& writes, at::Tensor& state) {
  const at::Tensor decay =
      token.decay.dim() == 2 ? token.decay.unsqueeze(-1).unsqueeze(-1) : token.decay.unsqueeze(-1);
  at::Tensor written = decay * state;
  const at::Tensor k = token.k.unsqueeze(-1);
  at::Tensor value = token.v.unsqueeze(-2);
  if (token.beta.defined()) {
    const at::Tensor recalled = token.k.unsqueeze(-2).matmul(written);
    value = (value - recalled) * token.beta.unsqueeze(-1).unsqueeze(-1);
  }
  written = written + k * value;
  const at::Tensor mask = writes.view({-1, 1, 1, 1});
  state = mask * written + (1 - mask) * state;
  const double scale = 1 / std::sqrt(static_cast<double>(token.k.size(-1)));
  return token.q.unsqueeze(-2).matmul(state).squeeze(-2) * scale;
}

struct SseCase {
  bool delta = false;
  std::int64_t writers = 1, readers = 1;
  std::string write_gate = "value";
  bool read_gate = true;
};

constexpr std::int64_t kPartitions = 4, kGateRank = 16;

// Of sse.md and sse_gdn.md.
at::Tensor SlowSse(const SseCase& c, const Weights& w, const at::Tensor& x) {
  const std::int64_t gates = c.delta ? 2 * kHeads : kGateRank;
  const std::vector<at::Tensor> z =
      Project(x, w.at("in_proj.weight"))
          .split_with_sizes(
              {kModelDim, kModelDim, kModelDim, gates, kPartitions, kWidth, kWidth, gates, kWidth},
              -1);
  const auto activate = [&](const at::Tensor& q, const at::Tensor& k) {
    const at::Tensor q_heads = at::silu(Heads(q, kHeads)), k_heads = Heads(k, kHeads);
    return c.delta ? std::pair(Unit(q_heads), Unit(at::silu(k_heads)))
                   : std::pair(q_heads, at::softmax(k_heads, -1));
  };
  const auto [q, k] = activate(z[0] + Project(z[5], w.at("lora_q.weight")),
                               z[1] + Project(z[6], w.at("lora_k.weight")));
  const auto [shared_q, shared_k] = activate(z[0], z[1]);
  const at::Tensor v = at::silu(Heads(z[2], kHeads));
  const auto decays = [&](const at::Tensor& logits, const std::string& scope) {
    if (c.delta) {
      return (-w.at(scope + "A_log").exp() *
              at::softplus(logits.narrow(-1, kHeads, kHeads) + w.at(scope + "dt_bias")))
          .exp();
    }
    const at::Tensor inner =
        Project(logits, w.at(scope + "decay_proj.weight")) + w.at(scope + "decay_proj.bias");
    return Heads((at::log_sigmoid(inner) / 16).exp(), kHeads);
  };
  const at::Tensor decay = decays(z[3], ""), shared_decay = decays(z[7], "shared.");
  const at::Tensor e = at::softmax(z[4], -1);
  const at::Tensor writes = Largest(e, c.writers), reads = Largest(e, c.readers);
  const at::Tensor everyone = at::ones({x.size(0)}, x.options().requires_grad(false));

  std::vector<at::Tensor> states(
      kPartitions + 1, at::zeros({x.size(0), kHeads, kWidth, kWidth}, everyone.options()));
  std::vector<at::Tensor> o;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const auto at_t = [t](const at::Tensor& all) { return all.select(1, t); };
    Token token{at_t(shared_q), at_t(shared_k), at_t(v), at_t(shared_decay)};
    if (c.delta) token.beta = at::sigmoid(at_t(z[7]).narrow(-1, 0, kHeads));
    at::Tensor sum = Visit(token, everyone, states[kPartitions]);
    for (std::int64_t i = 0; i < kPartitions; ++i) {
      const at::Tensor score = at_t(e).select(-1, i).view({-1, 1, 1});
      token = {at_t(q), at_t(k), at_t(v), at_t(decay)};
      if (c.delta) token.beta = at::sigmoid(at_t(z[3]).narrow(-1, 0, kHeads));
      if (c.write_gate == "value") token.v = token.v * score;
      if (c.write_gate == "beta") token.beta = token.beta * score.squeeze(-1);
      const at::Tensor read =
          Visit(token, at_t(writes).select(-1, i), states[static_cast<std::size_t>(i)]);
      sum = sum + read * (c.read_gate ? score : at::ones_like(score)) *
                      at_t(reads).select(-1, i).view({-1, 1, 1});
    }
    o.push_back(sum);
  }
  const at::Tensor gate = at::silu(Heads(Project(z[8], w.at("gate_proj.weight")), kHeads));
  return Project((RmsNorm(at::stack(o, 1), w.at("o_norm.weight")) * gate).flatten(2),
                 w.at("o_proj.weight"));
}

TEST_CASE("routed mixers: sse and sse_gdn with as many readers as writers, and with others") {
  const SseCase cases[] = {
      {},
      {.writers = 1, .readers = 3},
      {.writers = 3, .readers = 1},
      {.writers = 2, .readers = 4, .read_gate = false},
      {.writers = 2, .readers = 2, .write_gate = "none"},
      {.delta = true, .writers = 1, .readers = 3},
      {.delta = true, .writers = 3, .readers = 2, .write_gate = "beta"},
      {.delta = true, .writers = 2, .readers = 3, .write_gate = "none"},
      {.delta = true, .writers = 1, .readers = 1, .read_gate = false},
  };
  for (const SseCase& c : cases) {
    for (const char* form : {"varlen", "masking", "loop"}) {
      CAPTURE(c.delta, c.writers, c.readers, c.write_gate, c.read_gate, form);
      CheckAgainst({{"name", c.delta ? "sse_gdn" : "sse"},
                    {"top_k", c.writers},
                    {"num_readers", c.readers},
                    {"write_gate", c.write_gate},
                    {"read_gate", c.read_gate},
                    {"implementation", form}},
                   [&](const Weights& w, const at::Tensor& x) { return SlowSse(c, w, x); });
    }
  }
}

struct MomCase {
  bool gla = false, shared = true, single = false;
  std::int64_t conv_size = 4, top_k = 2;
};

constexpr std::int64_t kMemories = 3;

// Of mom.md.
at::Tensor SlowMom(const MomCase& c, const Weights& w, const at::Tensor& x) {
  const std::int64_t own = c.single ? 1 : kMemories, sets = own + (c.shared ? 1 : 0);
  const std::int64_t gates = c.gla ? kGateRank * sets : 2 * kHeads * sets;
  const std::int64_t qkv = kModelDim * (1 + 2 * sets);
  const std::vector<at::Tensor> z =
      Project(x, w.at("in_proj.weight")).split_with_sizes({qkv, gates, kMemories, kModelDim}, -1);
  at::Tensor convolved = z[0];
  if (c.conv_size > 0) {  // filters of q, k and v, the same for all sets
    std::vector<at::Tensor> filters = w.at("conv.weight").split(kModelDim);
    for (std::size_t part = 1; part < 3; ++part) {
      filters[part] =
          at::cat(std::vector<at::Tensor>(static_cast<std::size_t>(sets), filters[part]));
    }
    convolved = Convolved(z[0], at::cat(filters));
  }
  if (c.conv_size > 0 || !c.gla) convolved = at::silu(convolved);
  const std::vector<at::Tensor> parts =
      convolved.split_with_sizes({kModelDim, kModelDim * sets, kModelDim * sets}, -1);
  const auto keys = [&](const at::Tensor& flat) {
    const at::Tensor heads = Heads(flat, kHeads);
    return c.gla ? heads : Unit(heads);
  };
  const at::Tensor p = at::softmax(z[2], -1), chosen = Largest(p, c.top_k);
  const at::Tensor weights = p * chosen / (p * chosen).sum(-1, /*keepdim=*/true);
  const at::Tensor everyone = at::ones({x.size(0)}, x.options().requires_grad(false));

  const auto token_of = [&](std::int64_t set, std::int64_t t) {
    const auto block = [&](const at::Tensor& all, std::int64_t width) {
      return all.select(1, t).narrow(-1, set * width, width);
    };
    Token token{keys(parts[0].select(1, t)),
                keys(block(parts[1], kModelDim)),
                Heads(block(parts[2], kModelDim), kHeads),
                {}};
    if (c.gla) {
      const std::string name =
          c.shared && set + 1 == sets ? "shared" : "memories." + std::to_string(set);
      const at::Tensor inner = Project(block(z[1], kGateRank), w.at(name + ".decay_proj.weight")) +
                               w.at(name + ".decay_proj.bias");
      token.decay = Heads((at::log_sigmoid(inner) / 16).exp(), kHeads);
    } else {
      const at::Tensor logits = z[1].select(1, t);
      token.beta = at::sigmoid(logits.narrow(-1, set * kHeads, kHeads));
      const at::Tensor a = logits.narrow(-1, (sets + set) * kHeads, kHeads);
      token.decay = (-w.at("A_log").exp() * at::softplus(a + w.at("dt_bias"))).exp();
    }
    return token;
  };
  std::vector<at::Tensor> states(
      kMemories + 1, at::zeros({x.size(0), kHeads, kWidth, kWidth}, everyone.options()));
  std::vector<at::Tensor> o;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    at::Tensor sum;
    for (std::int64_t e = 0; e < kMemories; ++e) {
      const at::Tensor read =
          Visit(token_of(c.single ? 0 : e, t), chosen.select(1, t).select(-1, e),
                states[static_cast<std::size_t>(e)]);
      const at::Tensor weighted = read * weights.select(1, t).select(-1, e).view({-1, 1, 1});
      sum = sum.defined() ? sum + weighted : weighted;
    }
    if (c.shared) sum = sum + Visit(token_of(own, t), everyone, states[kMemories]);
    o.push_back(sum);
  }
  return Project(
      (RmsNorm(at::stack(o, 1), w.at("o_norm.weight")) * at::silu(Heads(z[3], kHeads))).flatten(2),
      w.at("o_proj.weight"));
}

TEST_CASE("routed mixers: mom with memories of Gated DeltaNet and of gated linear attention") {
  const MomCase cases[] = {
      {},
      {.gla = true},
      {.gla = true, .shared = false, .top_k = 1},
      {.gla = true, .single = true},
      {.gla = true, .conv_size = 0, .top_k = 3},
      {.shared = false, .single = true, .conv_size = 0, .top_k = 1},
  };
  for (const MomCase& c : cases) {
    for (const char* form : {"varlen", "masking", "loop"}) {
      CAPTURE(c.gla, c.shared, c.single, c.conv_size, c.top_k, form);
      CheckAgainst({{"name", "mom"},
                    {"memory", c.gla ? "gla" : "gated_delta_net"},
                    {"num_memories", kMemories},
                    {"top_k", c.top_k},
                    {"use_shared", c.shared},
                    {"single_kv_proj", c.single},
                    {"conv_size", c.conv_size},
                    {"implementation", form}},
                   [&](const Weights& w, const at::Tensor& x) { return SlowMom(c, w, x); });
    }
  }
}

struct RavenCase {
  std::int64_t kv_heads = kHeads;
  std::string score = "sigmoid";
  bool renormalise = true, slot_gate = false, output_gate = true, mlp = false;
};

constexpr std::int64_t kSlots = 5, kSlotsWritten = 2;
constexpr double kAlpha = 2;

// Of raven.md.
at::Tensor SlowRaven(const RavenCase& c, const Weights& w, const at::Tensor& x) {
  const std::int64_t kv = c.kv_heads, group = kHeads / kv, logits = kv * kSlots;
  const std::vector<at::Tensor> z =
      Project(x, w.at("in_proj.weight"))
          .split_with_sizes({kModelDim, kv * kWidth, kv * kWidth, c.mlp ? kModelDim : logits,
                             c.slot_gate ? logits : kv, c.output_gate ? kModelDim : 0},
                            -1);
  const at::Tensor q = RmsNorm(at::silu(Heads(z[0], kHeads)), w.at("q_norm.weight"));
  const at::Tensor k = RmsNorm(at::silu(Heads(z[1], kv)), w.at("k_norm.weight"));
  const at::Tensor v = at::silu(Heads(z[2], kv));
  const at::Tensor routed =
      c.mlp ? Project(at::gelu(z[3] + w.at("router_bias")), w.at("router_proj.weight")) : z[3];
  const at::Tensor m =
      c.score == "sigmoid" ? at::sigmoid(Heads(routed, kv)) : at::softmax(Heads(routed, kv), -1);
  const at::Tensor g = m * Largest(m, kSlotsWritten);
  const at::Tensor r =
      g / (c.renormalise ? (g.sum(-1, /*keepdim=*/true) + 1e-9) * kAlpha : at::full({}, kAlpha));
  const at::Tensor a =
      c.slot_gate ? Heads(at::log_sigmoid(z[4]) / 4, kv)
                  : (-w.at("A_log").exp() * at::softplus(z[4] + w.at("dt_bias"))).unsqueeze(-1);
  const at::Tensor keep = (a * r).exp();  // [B,T,Hk,M]
  at::Tensor keys = at::zeros({x.size(0), kv, kSlots, kWidth}, z[0].options().requires_grad(false));
  at::Tensor values = keys;
  std::vector<at::Tensor> o;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const at::Tensor kept = keep.select(1, t).unsqueeze(-1);
    keys = kept * keys + (1 - kept) * k.select(1, t).unsqueeze(-2);
    values = kept * values + (1 - kept) * v.select(1, t).unsqueeze(-2);
    std::vector<at::Tensor> heads;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const at::Tensor query = q.select(1, t).select(1, h).unsqueeze(-1);  // [B,K,1]
      const at::Tensor p = at::softmax(keys.select(1, h / group).matmul(query).squeeze(-1), -1);
      heads.push_back(p.unsqueeze(-2).matmul(values.select(1, h / group)).squeeze(-2));
    }
    o.push_back(at::stack(heads, 1));
  }
  const at::Tensor read = at::silu(at::stack(o, 1));
  const at::Tensor y =
      c.output_gate
          ? (RmsNorm(read, w.at("o_norm.weight")) * at::silu(Heads(z[5], kHeads))).flatten(2)
          : RmsNorm(read.flatten(2), w.at("o_norm.weight"));
  return Project(y, w.at("o_proj.weight"));
}

TEST_CASE("routed mixers: raven with every router, gate and grouping of heads") {
  const RavenCase cases[] = {
      {},
      {.kv_heads = 1},
      {.kv_heads = 1, .score = "softmax", .output_gate = false},
      {.score = "softmax", .renormalise = false},
      {.renormalise = false, .slot_gate = true, .mlp = true},
      {.kv_heads = 1, .slot_gate = true, .mlp = true},
  };
  for (const RavenCase& c : cases) {
    CAPTURE(c.kv_heads, c.score, c.renormalise, c.slot_gate, c.output_gate, c.mlp);
    CheckAgainst({{"name", "raven"},
                  {"num_heads", kHeads},
                  {"num_kv_heads", c.kv_heads},
                  {"num_slots", kSlots},
                  {"top_k", kSlotsWritten},
                  {"alpha", kAlpha},
                  {"router_score", c.score},
                  {"router_mlp", c.mlp},
                  {"renormalise", c.renormalise},
                  {"forget_gate", c.slot_gate ? "slot" : "head"},
                  {"output_gate", c.output_gate ? "silu" : "none"}},
                 [&](const Weights& w, const at::Tensor& x) { return SlowRaven(c, w, x); });
  }
}

}  // namespace
}  // namespace mixerbench::conformance
