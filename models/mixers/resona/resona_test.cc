// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/resona/resona.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/error.h"
#include "models/mixer.h"
#include "models/mixer_entry.h"
#include "models/mixers/resona/retrieval.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::resona {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 8;
constexpr double kSameMaths = 1e-12;

// y = x, so that what the wrapper adds is seen alone.
class Copy final : public Mixer {
 public:
  State InitialState(std::int64_t) const override { return {}; }
  Mixed Mix(const MixerInputs& inputs, const MixerOptions&) const override {
    return {.tokens = {{inputs.x}}};
  }
  at::Tensor Output(const Mixed& mixed, const MixerOptions&) const override {
    return mixed.tokens[0].value;
  }
};

struct NoOptions {};

struct Model {
  explicit Model(Object config, std::set<std::string> offered = {"embeddings", "previous_output"})
      : parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble), registry("mixer") {
    Register(registry);
    static const Fields<NoOptions> fields;
    registry.Add("copy", MakeMixerEntry(fields, [](const NoOptions&, const std::string&,
                                                   const MixerContext&, const ParameterScope&) {
                   return std::make_unique<Copy>();
                 }));
    config["name"] = "resona";
    config["inner"] = Object{{"name", "copy"}};
    mixer =
        CreateMixer(config, "/mixer",
                    {.d_model = kModelDim, .registry = &registry, .offered = std::move(offered)},
                    ParameterScope(parameters));
    for (const Parameter& parameter : parameters.parameters()) {
      p[parameter.name] = parameter.tensor;
    }
  }

  at::Tensor Run(const MixerInputs& inputs, const MixerOptions& options = {}) const {
    return Forward(*mixer, inputs, options).y;
  }

  ParameterSet parameters;
  MixerRegistry registry;
  std::unique_ptr<Mixer> mixer;
  std::map<std::string, at::Tensor> p;
};

// The procedure of the paper, one token at a time.
at::Tensor Expected(const Model& model, const at::Tensor& x, const at::Tensor& memory,
                    const at::Tensor& queries, std::int64_t chunk_size, std::int64_t top_k,
                    std::int64_t num_heads) {
  const std::int64_t head_dim = kModelDim / num_heads;
  const at::Tensor q = queries.matmul(model.p.at("q_proj.weight").t());
  const at::Tensor kv = memory.matmul(model.p.at("kv_proj.weight").t());
  std::vector<at::Tensor> y;
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    std::vector<std::pair<double, std::int64_t>> scores;
    for (std::int64_t n = 0; (n + 1) * chunk_size <= i; ++n) {
      const at::Tensor code = memory.narrow(0, n * chunk_size, chunk_size).mean(0);
      const double cosine =
          (queries[i].dot(code) / (queries[i].norm() * code.norm() + 1e-8)).item<double>();
      scores.emplace_back(-cosine, n);
    }
    std::sort(scores.begin(), scores.end());
    scores.resize(std::min<std::size_t>(scores.size(), static_cast<std::size_t>(top_k)));
    if (scores.empty()) {
      y.push_back(x[i]);
      continue;
    }
    at::Tensor o = at::zeros({kModelDim}, at::kDouble);
    for (std::int64_t h = 0; h < num_heads; ++h) {
      const auto head = [&](const at::Tensor& row, std::int64_t first) {
        return row.narrow(0, first + h * head_dim, head_dim);
      };
      at::Tensor sum = at::zeros({head_dim}, at::kDouble);
      double denominator = 0;
      for (const auto& [cosine, n] : scores) {
        for (std::int64_t j = n * chunk_size; j < (n + 1) * chunk_size; ++j) {
          const double weight = std::exp(head(q[i], 0).dot(head(kv[j], 0)).item<double>() /
                                         std::sqrt(static_cast<double>(head_dim)));
          sum = sum + weight * head(kv[j], kModelDim);
          denominator += weight;
        }
      }
      head(o, 0).copy_(sum / denominator);
    }
    y.push_back(0.5 * x[i] + 0.5 * o.matmul(model.p.at("out_proj.weight").t()));
  }
  return at::stack(y);
}

TEST_CASE("resona: the procedure of the paper, one token at a time") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({1, 23, kModelDim}, 1);
  const at::Tensor embeddings = RandomNormal({1, 23, kModelDim}, 2);
  const at::Tensor previous = RandomNormal({1, 23, kModelDim}, 3);
  const NamedTensors values = {{"embeddings", embeddings}, {"previous_output", previous}};
  struct Case {
    Object options;
    at::Tensor memory;
    at::Tensor queries;
    std::set<std::string> offered;
  };
  for (const auto& [options, memory, queries, offered] : std::vector<Case>{
           {{}, embeddings, previous, {"embeddings", "previous_output"}},
           {{}, embeddings, embeddings, {"embeddings"}},  // the first layer
           {{{"query_source", "this_output"}, {"memory_source", "layer_input"}}, x, x, {}},
           {{{"query_source", "embeddings"}, {"search_gradient", "none"}},
            embeddings,
            embeddings,
            {"embeddings", "previous_output"}}}) {
    for (const auto& [chunk_size, top_k] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 1}, {3, 2}, {1, 4}, {7, 1}}) {
      Object config = options;
      config["chunk_size"] = chunk_size;
      config["top_k"] = top_k;
      config["num_heads"] = 2;
      const Model model(config, offered);
      const at::Tensor expected =
          Expected(model, x[0], memory[0], queries[0], chunk_size, top_k, /*num_heads=*/2);
      for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
        CAPTURE(chunk_size, top_k, path == ExecutionPath::kFast);
        CHECK(RelativeError(model.Run({x, values}, {.path = path})[0], expected) < kSameMaths);
      }
    }
  }
}

// Keys and values of MQAR: a chunk is one pair, and the query is the key of the fourth.
TEST_CASE("resona: untrained, a key finds the chunk of its pair") {
  const at::NoGradGuard no_grad;
  const Model model(Object{{"query_source", "embeddings"}});
  const at::Tensor tokens = at::tensor({0, 1, 2, 3, 4, 5, 6, 7, 2, 6, 0}, at::kLong);
  const at::Tensor embeddings =
      at::eye(kModelDim, at::kDouble).index_select(0, tokens).unsqueeze(0);
  TapRecorder recorder;
  model.Run({embeddings, {{"embeddings", embeddings}}}, {.taps = TapScope(recorder)});
  const at::Tensor router = recorder.records.at("router")[0].flatten();
  CHECK(router[8].item<double>() == 1);
  CHECK(router[9].item<double>() == 3);
  CHECK(router[10].item<double>() == 0);
  CHECK(router[0].item<double>() == -1);
  CHECK(router[1].item<double>() == -1);
}

TEST_CASE("resona: of equal chunks the earlier one is chosen, and each at most once") {
  const at::Tensor same = RandomNormal({1, 1, 4}, 1).expand({1, 6, 4}).contiguous();
  const Choice choice =
      Search({.queries = same, .codes = same.narrow(1, 0, 3), .chunk_size = 2, .top_k = 3});
  CHECK(choice.chunks[0][5].narrow(0, 0, 2).equal(at::tensor({0, 1}, at::kLong)));
  // Token 5 has two complete chunks before it.
  CHECK(choice.valid[5].to(at::kLong).equal(at::tensor({1, 1, 0}, at::kLong)));
  CHECK(choice.valid[1].any().item<bool>() == false);
}

TEST_CASE("resona: gathered and masked forms agree, every gradient included") {
  constexpr std::int64_t kTokens = 21, kChunk = 2;
  const at::Tensor queries = RandomNormal({2, kTokens, 5}, 1);
  const at::Tensor codes = RandomNormal({2, kTokens / kChunk, 5}, 2);
  for (const auto gradient :
       {SearchGradient::kNone, SearchGradient::kGate, SearchGradient::kStraightThrough}) {
    const auto run = [&](ExecutionPath path) {
      return [&, path](const std::vector<at::Tensor>& x) {
        const Choice choice = Search({.queries = x[2],
                                      .codes = x[3],
                                      .chunk_size = kChunk,
                                      .top_k = 3,
                                      .gradient = gradient,
                                      .temperature = 0.5});
        const at::Tensor o =
            Integrate({.q = x[0], .kv = x[1], .choice = choice, .chunk_size = kChunk}, path);
        return std::vector<at::Tensor>{o.narrow(1, kChunk, kTokens - kChunk)};
      };
    };
    const std::vector<at::Tensor> inputs = {RandomNormal({2, kTokens, 2, 3}, 3),
                                            RandomNormal({2, kTokens, 2, 2, 3}, 4), queries, codes};
    const auto masked = testing::Differentiate(run(ExecutionPath::kReference), inputs);
    const auto gathered = testing::Differentiate(run(ExecutionPath::kFast), inputs);
    CHECK(RelativeError(gathered.outputs[0], masked.outputs[0]) < kSameMaths);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      CAPTURE(i);
      CHECK(RelativeError(gathered.gradients[i], masked.gradients[i]) < 1e-11);
      const bool of_search = i >= 2;
      CHECK((gathered.gradients[i].norm().item<double>() > 0) ==
            (!of_search || gradient != SearchGradient::kNone));
    }
    // Only of the gate the forward pass knows: its gradient is the true one.
    if (gradient != SearchGradient::kStraightThrough) {
      CHECK(testing::GradientCheckError(run(ExecutionPath::kFast), inputs) < 1e-6);
    }
  }
}

TEST_CASE(
    "resona: straight through the forward is that of no gradient, the backward that of a gate") {
  constexpr std::int64_t kTokens = 8;
  const at::Tensor kv = RandomNormal({1, kTokens, 2, 1, 3}, 4);
  const at::Tensor q = RandomNormal({1, kTokens, 1, 3}, 3);
  const auto run = [&](SearchGradient gradient) {
    return testing::Differentiate(
        [&](const std::vector<at::Tensor>& x) {
          const Choice choice = Search({.queries = x[0],
                                        .codes = x[1],
                                        .chunk_size = 2,
                                        .gradient = gradient,
                                        .temperature = 0.5});
          return std::vector<at::Tensor>{Integrate(
              {.q = q, .kv = kv, .choice = choice, .chunk_size = 2}, ExecutionPath::kFast)};
        },
        {RandomNormal({1, kTokens, 5}, 1), RandomNormal({1, kTokens / 2, 5}, 2)});
  };
  const auto hard = run(SearchGradient::kNone);
  const auto gate = run(SearchGradient::kGate);
  const auto through = run(SearchGradient::kStraightThrough);
  CHECK(RelativeError(through.outputs[0], hard.outputs[0]) < kSameMaths);
  CHECK(RelativeError(through.gradients[0], gate.gradients[0]) < kSameMaths);
  CHECK(RelativeError(through.gradients[1], gate.gradients[1]) < kSameMaths);
}

TEST_CASE("resona: the share of the mixer, constant and of the token, with and without a chunk") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({1, 6, kModelDim}, 1);
  const NamedTensors values = {{"embeddings", x}, {"previous_output", x}};
  const at::Tensor inner_only = Model(Object{{"alpha", 1}}).Run({x, values});
  CHECK(RelativeError(inner_only, x) < kSameMaths);
  const at::Tensor scaled =
      Model(Object{{"alpha", 0.25}, {"empty_retrieval", "scaled"}}).Run({x, values});
  CHECK(RelativeError(scaled.narrow(1, 0, 2), x.narrow(1, 0, 2) * 0.25) < kSameMaths);
  const at::Tensor constant = Model(Object{{"alpha", 0.25}}).Run({x, values});
  CHECK(RelativeError(constant.narrow(1, 0, 2), x.narrow(1, 0, 2)) < kSameMaths);
  CHECK(RelativeError(constant.narrow(1, 2, 4), scaled.narrow(1, 2, 4)) < kSameMaths);
  const Model of_token(Object{{"alpha", 0.25}, {"input_alpha", true}});
  CHECK(RelativeError(of_token.Run({x, values}), constant) < kSameMaths);
}

TEST_CASE("resona: parameters, and a state that grows") {
  const Model model(Object{{"embed_dim", 4}, {"num_heads", 2}, {"head_dim", 3}, {"chunk_size", 4}});
  CHECK(model.parameters.num_elements() == 4 * kModelDim * 6 + kModelDim * 4);
  CHECK(SizeOf(model.mixer->InitialState(1), /*more_tokens=*/11).recurrent ==
        2 * 11 * 6 + (11 / 4) * 4);
  CHECK(Model(Object{{"search_gradient", "none"}}).parameters.num_elements() ==
        4 * kModelDim * kModelDim);
}

TEST_CASE("resona: it asks for what it reads, and bad options name themselves") {
  CHECK(Model(Object{}).mixer->traits().reads ==
        std::set<std::string>{"embeddings", "previous_output"});
  CHECK(Model(Object{}, {"embeddings"}).mixer->traits().reads ==
        std::set<std::string>{"embeddings"});
  CHECK_THROWS_AS(Model(Object{}, {}), ConfigError);
  const auto fails = [](const char* option, Value value) {
    CHECK_THROWS_WITH(Model(Object{{option, std::move(value)}}),
                      Catch::Matchers::StartsWith(std::string("/mixer/") + option + ": "));
  };
  fails("chunk_size", 0);
  fails("top_k", 0);
  fails("num_heads", 3);
  fails("embed_dim", 9);
  fails("temperature", 0);
  for (const auto& [option, value] : Object{{"shared_encoder", false}, {"temperature", 0.5}}) {
    CHECK_THROWS_WITH(Model(Object{{"search_gradient", "none"}, {option, value}}),
                      Catch::Matchers::StartsWith("/mixer/" + option + ": "));
  }
  fails("alpha", 1.5);
}

}  // namespace
}  // namespace mixerbench::models::resona
