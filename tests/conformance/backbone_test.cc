// Every backbone: streaming, parameter counts, initialisation, precision, options.
// SPDX-License-Identifier: Apache-2.0
#include "models/backbone.h"

#include <cmath>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"
#include "base/error.h"
#include "tests/conformance/mixer_cases.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::conformance {
namespace {

using models::ExecutionPath;
using testing::BitwiseEqual;
using testing::RelativeError;

constexpr double kDoubleTolerance = 1e-10;
// bf16 rounds at 2^-9 and a two-layer model chains about twenty roundings.
constexpr double kBfloatTolerance = 0.05;

const models::BackboneRegistry& Backbones() {
  static const auto registry = [] {
    models::BackboneRegistry built("backbone");
    models::RegisterBackbones(built);
    return built;
  }();
  return registry;
}

struct TestModel {
  std::unique_ptr<models::ParameterSet> parameters;
  std::unique_ptr<models::Backbone> backbone;

  at::Tensor Parameter(const std::string& name) const {
    for (const models::Parameter& parameter : parameters->parameters()) {
      if (parameter.name == name) return parameter.tensor;
    }
    Require(false, "no parameter " + name);
    return {};
  }
};

TestModel Make(const std::string& name, const Value& config, std::int64_t vocab_size,
               std::int64_t max_seq_len, at::ScalarType dtype = at::kFloat) {
  const models::BackboneEntry& entry = Backbones().Find(name, "/backbone");
  TestModel model;
  model.parameters = std::make_unique<models::ParameterSet>(
      7, entry.init_policy(config), entry.num_layers(config), at::kCPU, dtype);
  model.backbone =
      entry.create(config, "/backbone",
                   {.vocab_size = vocab_size, .max_seq_len = max_seq_len, .mixers = &Mixers()},
                   *model.parameters);
  return model;
}

// Distinct tokens in a fixed scrambled order.
at::Tensor Tokens(std::int64_t batch_size, std::int64_t seq_len, std::int64_t vocab_size) {
  return at::arange(batch_size * seq_len, at::TensorOptions(at::kLong))
      .mul(7)
      .remainder(vocab_size)
      .view({batch_size, seq_len});
}

struct BackboneCase {
  std::string label;
  std::string name;
  Value config;
};

std::vector<BackboneCase> BackboneCases() {
  std::vector<BackboneCase> cases;
  for (const auto& [name, entry] : Backbones().entries()) {
    cases.push_back({name + "[0]", name, Object{}});
    for (std::size_t i = 0; i < entry.test_configs.size(); ++i) {
      cases.push_back({name + "[" + std::to_string(i + 1) + "]", name, entry.test_configs[i]});
    }
  }
  return cases;
}

// A choice of tokens, and which of its entries count: padding gets no gradient.
struct Choice {
  kernels::ScoredPositions rows;
  at::Tensor counts;  // [M] 0 or 1
};

Choice Choose(const std::vector<std::int64_t>& chosen, const std::vector<double>& counts,
              std::int64_t num_tokens, std::int64_t per_sequence) {
  at::Tensor entries = at::full({num_tokens}, static_cast<std::int64_t>(chosen.size()), at::kLong);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (counts[i] > 0) entries[chosen[i]] = static_cast<std::int64_t>(i);
  }
  return {{at::tensor(chosen, at::kLong), entries, per_sequence}, at::tensor(counts, at::kDouble)};
}

// Hidden states of some tokens, and the gradients of a random weighting of them, with and without
// leaving the others out.
TEST_CASE("backbones: the hidden states of chosen tokens do not depend on leaving out the rest") {
  constexpr std::int64_t kVocabSize = 31;
  constexpr std::int64_t kSeqLen = 12;
  std::vector<BackboneCase> cases = BackboneCases();
  for (const std::string& mixer : Mixers().Names()) {
    cases.push_back({"zoology of " + mixer, "zoology",
                     Object{{"d_model", 16}, {"sequence_mixer", Object{{"name", mixer}}}}});
  }
  const std::vector<Choice> choices = {
      Choose({5, 0, 23, 11}, {1, 1, 1, 1}, 2 * kSeqLen, /*per_sequence=*/0),
      Choose({2, 5, 11, 15, 23, 0}, {1, 1, 1, 1, 1, 0}, 2 * kSeqLen, /*per_sequence=*/3),
  };
  const at::Tensor tokens = Tokens(2, kSeqLen, kVocabSize);
  for (const BackboneCase& test_case : cases) {
    CAPTURE(test_case.label);
    const TestModel model =
        Make(test_case.name, test_case.config, kVocabSize, kSeqLen, at::kDouble);
    for (const auto& [rows, counts] : choices) {
      CAPTURE(rows.per_sequence);
      const auto run = [&](const kernels::ScoredPositions* selection) {
        const at::Tensor hidden =
            model.backbone->Forward(tokens, {.compute_dtype = at::kDouble, .scored = selection})
                .hidden;
        const at::Tensor some =
            (selection != nullptr ? hidden : hidden.flatten(0, 1).index_select(0, rows.positions)) *
            counts.unsqueeze(1);
        (some * testing::RandomNormal(some.sizes(), 3)).sum().backward();
        std::vector<at::Tensor> results = {some.detach()};
        for (const models::Parameter& parameter : model.parameters->parameters()) {
          results.push_back(parameter.tensor.grad().defined() ? parameter.tensor.grad()
                                                              : at::zeros_like(parameter.tensor));
          parameter.tensor.mutable_grad().reset();
        }
        return results;
      };
      const auto all = run(nullptr);
      const auto some = run(&rows);
      for (std::size_t i = 0; i < all.size(); ++i) {
        INFO((i == 0 ? "hidden" : model.parameters->parameters()[i - 1].name));
        CHECK(RelativeError(some[i], all[i]) < kDoubleTolerance);
      }
    }
  }
}

TEST_CASE("backbones: prefill in pieces equals one call") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kVocabSize = 31;
  constexpr std::int64_t kSeqLen = 70;
  for (const BackboneCase& test_case : BackboneCases()) {
    CAPTURE(test_case.label);
    if (Backbones().Find(test_case.name, "").is_autoencoder) continue;
    const TestModel model =
        Make(test_case.name, test_case.config, kVocabSize, kSeqLen, at::kDouble);
    const at::Tensor tokens = Tokens(2, kSeqLen, kVocabSize);
    models::BackboneOptions options;
    options.compute_dtype = at::kDouble;
    const at::Tensor whole = model.backbone->Forward(tokens, options).hidden;

    models::State state = model.backbone->InitialState(2);
    std::vector<at::Tensor> pieces;
    std::int64_t start = 0;
    options.want_final_state = true;
    for (const std::int64_t length : {1, 64, 5}) {
      options.initial_state = &state;
      models::BackboneOutput output =
          model.backbone->Forward(tokens.narrow(1, start, length), options);
      pieces.push_back(output.hidden);
      CHECK(models::SizeOf(output.final_state).recurrent ==
            models::SizeOf(state, length).recurrent);
      state = std::move(output.final_state);
      start += length;
    }
    CHECK(RelativeError(at::cat(pieces, 1), whole) < kDoubleTolerance);
  }
}

TEST_CASE("backbones: the fast path equals the reference and every parameter gets a gradient") {
  constexpr std::int64_t kVocabSize = 31;
  for (const BackboneCase& test_case : BackboneCases()) {
    CAPTURE(test_case.label);
    const TestModel model = Make(test_case.name, test_case.config, kVocabSize, 64, at::kDouble);
    const at::Tensor tokens = Tokens(2, 17, kVocabSize).to(at::kInt);
    models::BackboneOptions options;
    options.compute_dtype = at::kDouble;
    const at::Tensor fast = model.backbone->Forward(tokens, options).hidden;
    options.path = ExecutionPath::kReference;
    CHECK(RelativeError(fast.detach(), model.backbone->Forward(tokens, options).hidden.detach()) <
          kDoubleTolerance);
    model.backbone->Logits(fast.flatten(0, 1)).square().sum().backward();
    for (const models::Parameter& parameter : model.parameters->parameters()) {
      CAPTURE(parameter.name);
      REQUIRE(parameter.tensor.grad().defined());
      CHECK(at::isfinite(parameter.tensor.grad()).all().item<bool>());
    }
  }
}

TEST_CASE("backbones: bf16 products stay near float32 and leave the residual stream alone") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kVocabSize = 31;
  for (const BackboneCase& test_case : BackboneCases()) {
    CAPTURE(test_case.label);
    const TestModel model = Make(test_case.name, test_case.config, kVocabSize, 64);
    const at::Tensor tokens = Tokens(2, 17, kVocabSize);
    models::BackboneOptions options;
    const at::Tensor high = model.backbone->Forward(tokens, options).hidden;
    options.compute_dtype = at::kBFloat16;
    const at::Tensor low = model.backbone->Forward(tokens, options).hidden;
    CHECK(low.scalar_type() == at::kBFloat16);
    CHECK(RelativeError(low, high) < kBfloatTolerance);
    CHECK(model.backbone->Logits(low.flatten(0, 1)).scalar_type() == at::kBFloat16);
  }
}

TEST_CASE("backbones: dropout acts in training only and repeats with its seed") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kVocabSize = 31;
  const TestModel model =
      Make("zoology", Object{{"d_model", 16}, {"resid_dropout", 0.3}}, kVocabSize, 64);
  const at::Tensor tokens = Tokens(2, 17, kVocabSize);
  const auto run_with_seed = [&](std::uint64_t seed) {
    models::BackboneOptions options;
    options.generator = at::detail::createCPUGenerator(seed);
    return model.backbone->Forward(tokens, options).hidden;
  };
  const at::Tensor evaluated = model.backbone->Forward(tokens, {}).hidden;
  CHECK(BitwiseEqual(evaluated, model.backbone->Forward(tokens, {}).hidden));
  CHECK(BitwiseEqual(run_with_seed(1), run_with_seed(1)));
  CHECK_FALSE(BitwiseEqual(run_with_seed(1), run_with_seed(2)));
  CHECK_FALSE(BitwiseEqual(run_with_seed(1), evaluated));
}

TEST_CASE("backbones: parameter counts are the published ones") {
  const auto count = [](const std::string& name, const Value& config, std::int64_t vocab_size) {
    return Make(name, config, vocab_size, 64).parameters->num_elements();
  };
  const Value hybrid =
      Object{{"name", "hybrid"},
             {"pattern", Array{Object{{"name", "base_conv"}, {"kernel_sizes", Array{3}}},
                               Object{{"name", "attention"}}}}};
  CHECK(count("zoology", Object{{"d_model", 64}, {"positions", "learned"}}, 8192) == 562304);
  CHECK(count("zoology", Object{{"d_model", 128}, {"positions", "learned"}}, 8192) == 1190144);
  CHECK(count("zoology", Object{{"d_model", 64}, {"sequence_mixer", hybrid}}, 8192) == 545984);
  CHECK(count("zoology", Object{{"d_model", 128}, {"sequence_mixer", hybrid}}, 8192) == 1132928);
  const Value based =
      Object{{"name", "hybrid"},
             {"pattern", Array{Object{{"name", "base_conv"}, {"kernel_sizes", Array{3}}},
                               Object{{"name", "linear_attention"},
                                      {"num_heads", 1},
                                      {"head_k_dim", 16},
                                      {"feature_map", "taylor"},
                                      {"scale", 1},
                                      {"use_normalizer", true},
                                      {"normalizer_eps", 1e-12},
                                      {"use_output_norm", false}}}}};
  CHECK(count("zoology", Object{{"d_model", 64}, {"sequence_mixer", based}}, 8192) == 539584);
  CHECK(count("zoology", Object{{"d_model", 128}, {"sequence_mixer", based}}, 8192) == 1103744);
  CHECK(count("mad", Object{}, 16) == 407184);
  const Value mamba = Object{{"name", "mamba"}, {"d_state", 4}};
  CHECK(count("mad", Object{{"sequence_mixer", mamba}}, 16) == 489616);
  CHECK(count("mad_autoencoder", Object{}, 16) == 440464);

  const auto zoology_mamba = [&](std::int64_t d_model, const Value& mixer) {
    return count("mamba_lm",
                 Object{{"d_model", d_model},
                        {"final_norm", "layer"},
                        {"vocab_multiple", 1},
                        {"sequence_mixer", mixer}},
                 8192);
  };
  CHECK(zoology_mamba(64, Object{{"name", "mamba"}}) == 589824);
  CHECK(zoology_mamba(128, Object{{"name", "mamba"}}) == 1282048);
  const Value mamba2 = Object{{"name", "mamba2"}, {"d_state", 16}};
  CHECK(zoology_mamba(64, mamba2) == 579916);
  CHECK(zoology_mamba(128, mamba2) == 1258328);
  CHECK(count("mamba_lm", Object{}, 16) == 66496);
  CHECK(count("mamba_lm", Object{}, 10) == 66496);  // filled up to 16
  CHECK(count("mamba_lm", Object{{"tied_head", false}}, 16) == 67520);
}

TEST_CASE("backbones: the gated MLP of mamba_lm is as wide as MAD's or as Mamba's") {
  const auto width = [](Object config) {
    config["d_model"] = 64;
    config["channel_mixer"] = "swiglu";
    return Make("mamba_lm", config, 31, 64).Parameter("layers.0.channel_mixer.fc2.weight").size(1);
  };
  CHECK(width({}) == 176);  // 170 in steps of 16
  CHECK(width({{"channel_mixer_step", 128}}) == 256);
  CHECK_THROWS_WITH(width({{"channel_mixer_step", 128}, {"channel_mixer_dim", 200}}),
                    Catch::Contains("/channel_mixer_step: is for channel_mixer swiglu"));
}

TEST_CASE("backbones: SelectLTI's models have the published numbers of parameters") {
  const auto count = [](const Value& mixer) {
    return Make("s4_sequence",
                Object{
                    {"d_model", 64}, {"n_layers", 2}, {"norm", "none"}, {"sequence_mixer", mixer}},
                16, 64)
        .parameters->num_elements();
  };
  const Object s4 = {{"name", "s4"}, {"d_state", 16}, {"n_ssm", 1}};
  const Object s4d = {{"name", "s4d"}, {"form", "full"}, {"d_state", 16}, {"n_ssm", 1}};
  const Object s5 = {{"name", "s5"}, {"d_state", 32}, {"blocks", 1}, {"activation", "silu"}};
  const auto with_input_gains = [](const Object& core) {
    return Object{{"name", "selectlti"}, {"core", core}, {"out", false}, {"activation", "none"}};
  };
  CHECK(count(Object{{"name", "s6"}}) == 9488);
  CHECK(count(s5) == 10480);
  CHECK(count(s4) == 21104);
  CHECK(count(s4d) == 21072);
  CHECK(count(Object{{"name", "selectlti"}}) == 14864);
  CHECK(count(with_input_gains(s4)) == 23296);
  CHECK(count(with_input_gains(s4d)) == 23264);
}

// What an auto-encoder is for: nothing of a token but what the code holds reaches its own logits.
TEST_CASE("backbones: an auto-encoder reads every token off one vector") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kVocabSize = 31;
  constexpr std::int64_t kSeqLen = 12;
  const Value windowed = Object{{"name", "sliding_window"}, {"window", 2}};
  const TestModel model = Make(
      "mad_autoencoder", Object{{"d_model", 16}, {"n_layers", 1}, {"sequence_mixer", windowed}},
      kVocabSize, kSeqLen, at::kDouble);
  const models::BackboneOptions options{.compute_dtype = at::kDouble};
  const at::Tensor tokens = Tokens(1, kSeqLen, kVocabSize);
  const at::Tensor hidden = model.backbone->Forward(tokens, options).hidden;
  const auto change_at = [&](std::int64_t position) {
    at::Tensor changed = tokens.clone();
    changed[0][position] = (tokens[0][position] + 1).remainder(kVocabSize);
    return model.backbone->Forward(changed, options).hidden;
  };
  // Beyond the window of the last token nothing is seen, not even by the token's own position.
  CHECK(BitwiseEqual(change_at(4), hidden));
  const at::Tensor difference = (change_at(kSeqLen - 1) - hidden).abs().amax(-1);
  CHECK(difference.min().item<double>() > 0);  // the last token changes every position
  const models::State state = model.backbone->InitialState(1);
  models::BackboneOptions from_state = options;
  from_state.initial_state = &state;
  CHECK_THROWS_AS(model.backbone->Forward(tokens, from_state), std::logic_error);
}

TEST_CASE("backbones: MAD's auto-encoder sets the bias of time steps to 0, its model does not") {
  const Value mamba = Object{{"name", "mamba"}};
  const auto largest_bias = [&](const std::string& name, const std::string& policy) {
    const TestModel model = Make(
        name, Object{{"d_model", 16}, {"init_policy", policy}, {"sequence_mixer", mamba}}, 31, 64);
    return model.Parameter("layers.0.mixer.dt_proj.bias").abs().max().item<double>();
  };
  for (const std::string name : {"mad", "mad_autoencoder"}) {
    CHECK(largest_bias(name, "mad") > 2);  // softplus of it is below 0.1
    CHECK(largest_bias(name, "mad_reset") == 0);
  }
}

TEST_CASE("backbones: the stream of mamba_lm stays in fp32 where it is asked to") {
  const at::NoGradGuard no_grad;
  const auto error = [](bool residual_in_fp32) {
    const TestModel model = Make("mamba_lm",
                                 Object{{"d_model", 16},
                                        {"n_layers", 24},
                                        {"residual_in_fp32", residual_in_fp32},
                                        {"sequence_mixer", Object{{"name", "gla"}}}},
                                 31, 64);
    const at::Tensor tokens = Tokens(2, 17, 31);
    const at::Tensor low = model.backbone->Forward(tokens, {.compute_dtype = at::kBFloat16}).hidden;
    return RelativeError(low, model.backbone->Forward(tokens, {}).hidden);
  };
  CHECK(error(true) < error(false));
}

// What every layer adds is below half a step of bf16 beside 256, all of it together is not.
TEST_CASE("backbones: MAD's streams stay in fp32, so that bf16 layers add up") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kWidth = 16;
  constexpr std::int64_t kNumLayers = 16;
  for (const std::string name : {"mad", "mad_autoencoder"}) {
    CAPTURE(name);
    const TestModel model =
        Make(name,
             Object{{"d_model", kWidth},
                    {"n_layers", kNumLayers},
                    {"channel_mixer", "identity"},
                    {"sequence_mixer", Object{{"name", "attention"}, {"out_bias", true}}}},
             31, 64);
    model.Parameter("embedding.weight").fill_(256);
    const auto hidden = [&](double added, at::ScalarType compute_dtype) {
      for (std::int64_t layer = 0; layer < kNumLayers; ++layer) {
        const std::string out_proj = "layers." + std::to_string(layer) + ".mixer.out_proj.";
        model.Parameter(out_proj + "weight").zero_();
        model.Parameter(out_proj + "bias").narrow(0, 0, kWidth / 2).fill_(added);
      }
      return model.backbone->Forward(Tokens(2, 5, 31), {.compute_dtype = compute_dtype})
          .hidden.to(at::kFloat);
    };
    const auto effect = [&](at::ScalarType compute_dtype) {
      return RelativeError(hidden(0.5, compute_dtype), hidden(0, compute_dtype));
    };
    CHECK(effect(at::kFloat) > 0.01);
    CHECK(effect(at::kBFloat16) > 0.8 * effect(at::kFloat));
  }
}

TEST_CASE("backbones: mixers have the published numbers of parameters and states") {
  struct Expected {
    Value config;
    std::int64_t num_elements;  // of one layer's mixer at d = 64
    std::int64_t recurrent;
    std::int64_t conv;
  };
  constexpr std::int64_t d = 64;
  const std::vector<Expected> expected = {
      {Object{{"name", "attention"}}, 4 * d * d + 4 * d, 2 * d * 10, 0},
      {Object{{"name", "base_conv"}, {"kernel_sizes", Array{3}}}, d * d + 5 * d, 0, 3 * d},
      {Object{{"name", "base_conv"}, {"kernel_sizes", Array{-1}}}, d * d + 18 * d + 64, 10 * d, 0},
      // Based with f = 16 and one head; 153 features.
      {Object{{"name", "linear_attention"},
              {"num_heads", 1},
              {"head_k_dim", 16},
              {"feature_map", "taylor"},
              {"use_normalizer", true},
              {"use_output_norm", false}},
       2 * d * 16 + 2 * d * d, 153 * (d + 1), 0},
      // 4 d^2 + 24 d, gate bias d/2, norm weight d/2.
      {Object{{"name", "gla"}}, 4 * d * d + 24 * d + d / 2 + d / 2, d * d / 4, 0},
      {Object{{"name", "delta_net"}}, 4 * d * d + 2 * d + 4 * 3 * d + d / 2, d * d / 2, 4 * 3 * d},
      // 6 d^2 + 2 d H, A_log and dt_bias, convolution of 4 d channels, norm weight d.
      {Object{{"name", "gated_delta_net"}}, 6 * d * d + 4 * d + 4 + 4 * 4 * d + d, d * d,
       4 * 4 * d},
  };
  for (const Expected& e : expected) {
    models::ParameterSet parameters(1, models::InitPolicy::kDefault, 2, at::kCPU, at::kFloat);
    const auto mixer =
        models::CreateMixer(e.config, "", {.d_model = d, .max_seq_len = 64, .registry = &Mixers()},
                            models::ParameterScope(parameters));
    CAPTURE(e.config.Find("name")->as_string());
    CHECK(parameters.num_elements() == e.num_elements);
    const models::StateSize size = models::SizeOf(mixer->InitialState(1), 10);
    CHECK(size.recurrent == e.recurrent);
    CHECK(size.conv == e.conv);
  }
}

// v_first and its gradient cross channel mixers with a state of their own: a chain of pieces and
// scored positions (above) of three layers of RWKV-7 rest on this.
TEST_CASE("backbones: values of RWKV-7's first layer reach every later one") {
  const TestModel model = Make("zoology",
                               Object{{"d_model", 16},
                                      {"n_layers", 3},
                                      {"state_mixer", "rwkv7"},
                                      {"embed_dropout", 0},
                                      {"sequence_mixer", Object{{"name", "rwkv7"}}}},
                               31, 64, at::kDouble);
  const at::Tensor tokens = Tokens(2, 7, 31);
  const auto hidden = [&] {
    return model.backbone->Forward(tokens, {.compute_dtype = at::kDouble}).hidden;
  };
  const at::Tensor before = hidden();
  const at::NoGradGuard no_grad;
  // With shares of 1 (a large bias of their logits), values of later layers are v_first alone, and
  // their own projections are without effect.
  for (const std::string layer : {"layers.1", "layers.2"}) {
    model.Parameter(layer + ".mixer.v_bias").fill_(50);
  }
  const at::Tensor shared = hidden();
  CHECK(RelativeError(shared, before.detach()) > 1e-3);
  for (const std::string layer : {"layers.1", "layers.2"}) {
    model.Parameter(layer + ".mixer.v_proj.weight").mul_(-3);
  }
  CHECK(RelativeError(hidden(), shared) < kDoubleTolerance);
  model.Parameter("layers.0.mixer.v_proj.weight").mul_(-3);
  CHECK(RelativeError(hidden(), shared) > 1e-3);
}

TEST_CASE("backbones: zoology ties its head to the embedding, mad does not") {
  const at::NoGradGuard no_grad;
  const at::Tensor hidden = at::arange(16, at::TensorOptions(at::kFloat)).view({1, 16});
  for (const std::string name : {"zoology", "mad"}) {
    const Value config = Object{{"d_model", 16}, {"sequence_mixer", Object{{"name", "gla"}}}};
    const TestModel model = Make(name, config, 31, 64);
    const at::Tensor tied = hidden.matmul(model.Parameter("embedding.weight").t());
    const bool is_tied = RelativeError(model.backbone->Logits(hidden), tied) < 1e-6;
    CHECK(is_tied == (name == "zoology"));
  }
}

TEST_CASE("backbones: the initialisation has the published statistics") {
  // 10^4 draws or more: the sample deviation is within 1 % (one standard error) times three.
  constexpr double kRelative = 0.03;
  const auto stddev = [](const at::Tensor& x) { return x.detach().std().item<double>(); };
  using Catch::Matchers::WithinRel;
  const TestModel zoology =
      Make("zoology", Object{{"d_model", 128}, {"n_layers", 4}, {"state_mixer", "mlp"}}, 512, 64);
  CHECK_THAT(stddev(zoology.Parameter("embedding.weight")), WithinRel(0.02, kRelative));
  CHECK_THAT(stddev(zoology.Parameter("layers.0.mixer.qkv_proj.weight")),
             WithinRel(0.02, kRelative));
  const double scaled = 0.02 / std::sqrt(8.0);
  CHECK_THAT(stddev(zoology.Parameter("layers.0.mixer.out_proj.weight")),
             WithinRel(scaled, kRelative));
  CHECK_THAT(stddev(zoology.Parameter("layers.3.state_mixer.fc2.weight")),
             WithinRel(scaled, kRelative));
  CHECK(zoology.Parameter("layers.0.mixer.qkv_proj.bias").abs().max().item<double>() == 0);
  CHECK(zoology.Parameter("layers.0.norm1.weight").min().item<double>() == 1);

  const TestModel mad = Make("mad", Object{}, 512, 64);
  const double uniform = 1 / std::sqrt(3.0 * 128);  // U(-1/sqrt(128), 1/sqrt(128))
  CHECK_THAT(stddev(mad.Parameter("embedding.weight")), WithinRel(0.02, kRelative));
  CHECK_THAT(stddev(mad.Parameter("layers.0.mixer.qkv_proj.weight")),
             WithinRel(uniform, kRelative));
  CHECK(mad.Parameter("head.bias").abs().max().item<double>() == 0);
}

// The names of mixers whose own output projection a model of four layers starts smaller than one of
// one layer does, at their defaults: those whose sources call it out_proj.
std::vector<std::string> MixersRescaledBy(models::InitPolicy policy) {
  std::vector<std::string> names;
  for (const std::string& name : Mixers().Names()) {
    models::ParameterSet shallow(1, policy, /*num_layers=*/1, at::kCPU, at::kDouble);
    models::ParameterSet deep(1, policy, /*num_layers=*/4, at::kCPU, at::kDouble);
    for (models::ParameterSet* parameters : {&shallow, &deep}) {
      models::CreateMixer(
          Object{{"name", name}}, "",
          {.d_model = 16, .max_seq_len = 64, .registry = &Mixers(), .offered = {"embeddings"}},
          models::ParameterScope(*parameters));
    }
    bool is_rescaled = false;
    for (std::size_t i = 0; i < deep.parameters().size(); ++i) {
      const at::Tensor before = shallow.parameters()[i].tensor.detach();
      const at::Tensor after = deep.parameters()[i].tensor.detach();
      CAPTURE(name, deep.parameters()[i].name);
      is_rescaled = is_rescaled || !after.equal(before);
      CHECK((after.equal(before) || RelativeError(after * 2, before) < kDoubleTolerance));
    }
    if (is_rescaled) names.push_back(name);
  }
  return names;
}

TEST_CASE("backbones: which mixers' outputs start smaller in deeper models") {
  const std::vector<std::string> expected = {"attention", "hyena",         "log_linear", "mamba",
                                             "mamba2",    "mamba3",        "moe",        "parallel",
                                             "resona",    "sliding_window"};
  CHECK(MixersRescaledBy(models::InitPolicy::kZoology) == expected);
  CHECK(MixersRescaledBy(models::InitPolicy::kMamba) == expected);
  CHECK(MixersRescaledBy(models::InitPolicy::kMad).empty());
}

TEST_CASE("backbones: options are complete, strict, and each is tested away from its default") {
  for (const auto& [name, entry] : Backbones().entries()) {
    CAPTURE(name);
    for (const FieldInfo& option : entry.params) {
      CAPTURE(option.name);
      bool varied = false;
      for (const Value& config : entry.test_configs) {
        const Value* value = config.Find(option.name);
        varied = varied || (value != nullptr && !(*value == option.default_value));
      }
      CHECK(varied);
    }
    const Value resolved = entry.resolve(Object{}, "/backbone", Mixers());
    CHECK(entry.resolve(resolved, "/backbone", Mixers()) == resolved);
    CHECK(resolved.Find("sequence_mixer")->as_object().size() > 1);
    CHECK_THROWS_WITH(
        entry.resolve(Object{{"sequence_mixer", Object{{"name", "gla"}, {"num_head", 2}}}},
                      "/backbone", Mixers()),
        Catch::Matchers::StartsWith("/backbone/sequence_mixer/num_head: "));
    CHECK(models::BackboneCodeHash(name).size() == 64);
  }
}

// Answers with what it reads and leaves it in `*read`.
class Reader final : public models::Mixer {
 public:
  explicit Reader(at::Tensor* read) : read_(read) {}

  models::MixerTraits traits() const override { return {.reads = {"embeddings"}}; }
  models::State InitialState(std::int64_t) const override { return {}; }
  models::Mixed Mix(const models::MixerInputs& inputs, const models::MixerOptions&) const override {
    *read_ = inputs.values.at("embeddings");
    return {.tokens = {{*read_}}};
  }
  at::Tensor Output(const models::Mixed& mixed, const models::MixerOptions&) const override {
    return mixed.tokens[0].value;
  }

 private:
  at::Tensor* read_;
};

TEST_CASE("backbones: the embeddings that mixers read are without positions and dropout") {
  constexpr std::int64_t kVocabSize = 31;
  constexpr std::int64_t kModelDim = 16;
  at::Tensor read;
  models::MixerRegistry mixers("mixer");
  models::MixerEntry reader;
  reader.create = [&](const Value&, const std::string&, const models::MixerContext&,
                      const models::ParameterScope&) { return std::make_unique<Reader>(&read); };
  mixers.Add("reader", std::move(reader));
  const at::Tensor tokens = Tokens(2, 9, kVocabSize);  // each but some twice
  for (const auto& [positions, dropout] :
       {std::pair("none", 0.0), std::pair("none", 0.99), std::pair("learned", 0.0)}) {
    CAPTURE(positions, dropout);
    models::ParameterSet parameters(7, models::InitPolicy::kDefault, 2, at::kCPU, at::kDouble);
    const auto backbone = Backbones()
                              .Find("zoology", "")
                              .create(Object{{"d_model", kModelDim},
                                             {"positions", positions},
                                             {"embed_dropout", dropout},
                                             {"sequence_mixer", Object{{"name", "reader"}}}},
                                      "", {kVocabSize, 64, &mixers}, parameters);
    const at::Tensor table = parameters.parameters()[0].tensor;
    REQUIRE(parameters.parameters()[0].name == "embedding.weight");
    for (const bool is_training : {false, true}) {
      const at::Tensor rows = at::embedding(table, tokens);
      models::BackboneOptions options{.compute_dtype = at::kDouble};
      if (is_training) options.generator = at::detail::createCPUGenerator(5);
      backbone->Forward(tokens, options);
      CHECK(BitwiseEqual(read.detach(), rows.detach()));
      const at::Tensor weights = testing::RandomNormal(rows.sizes(), 3);
      const auto gradient = [&](const at::Tensor& x) {
        table.mutable_grad().reset();
        (x * weights).sum().backward();
        return table.grad().clone();
      };
      CHECK(RelativeError(gradient(read), gradient(rows)) < kDoubleTolerance);
    }
  }
}

TEST_CASE("backbones: under the fla policy the weights of systems and filters keep their starts") {
  const auto with_policy = [](const Object& mixer, models::InitPolicy policy) {
    auto parameters = std::make_unique<models::ParameterSet>(1, policy, 2, at::kCPU, at::kDouble);
    models::CreateMixer(mixer, "", {.d_model = 16, .max_seq_len = 64, .registry = &Mixers()},
                        models::ParameterScope(*parameters));
    return parameters;
  };
  const auto long_filter =
      Object{{"name", "base_conv"}, {"kernel_sizes", Array{-1}}, {"long_filter", "explicit"}};
  const std::vector<std::pair<Object, std::set<std::string>>> cases = {
      {{{"name", "s4"}}, {"C", "D"}},
      {{{"name", "s4d"}}, {"C", "D"}},
      {{{"name", "s5"}}, {"C", "D"}},
      {{{"name", "lru"}}, {"C", "D"}},
      {{{"name", "h3"}}, {"C", "D", "shift.C", "shift.D"}},
      {{{"name", "hyena"}}, {"filter.bias"}},
      {long_filter, {"conv.filter"}},
  };
  for (const auto& [mixer, names] : cases) {
    CAPTURE(mixer.at("name").as_string());
    const auto plain = with_policy(mixer, models::InitPolicy::kDefault);
    const auto fla = with_policy(mixer, models::InitPolicy::kFla);
    std::set<std::string> kept;  // of what decays as weights do
    for (std::size_t i = 0; i < plain->parameters().size(); ++i) {
      const models::Parameter& parameter = fla->parameters()[i];
      const bool is_same = parameter.tensor.equal(plain->parameters()[i].tensor);
      if (is_same && parameter.weight_decay) kept.insert(parameter.name);
    }
    CHECK(kept == names);
  }
}

TEST_CASE("backbones: taps are named by layer") {
  const at::NoGradGuard no_grad;
  const TestModel model =
      Make("zoology", Object{{"d_model", 16}, {"sequence_mixer", Object{{"name", "delta_net"}}}},
           31, 64);
  models::TapRecorder recorder;
  model.backbone->Forward(Tokens(2, 5, 31), {.taps = models::TapScope(recorder)});
  CHECK(recorder.records.contains("layers.0.write_gate"));
  CHECK(recorder.records.contains("layers.1.state_norm"));
}

}  // namespace
}  // namespace mixerbench::conformance
