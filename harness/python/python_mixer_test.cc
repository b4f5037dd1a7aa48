// What the engine asks of Python, answered here in C++.
// SPDX-License-Identifier: Apache-2.0
#include "harness/python/python_mixer.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "base/error.h"
#include "harness/python/host.h"
#include "harness/python/module_state.h"
#include "io/json.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

using models::Forward;
using models::StateKind;
using testing::RandomNormal;

constexpr std::int64_t kWidth = 3;

// y_t = w * (the sum of x to t) + b; "m:Sum" keeps the sum as its state, "m:Whole" nothing.
struct Module {
  bool has_state = false;
  bool has_extras = false;  // "m:Extras": a loss "size" and a tap "sum"
  std::vector<at::Tensor> parameters = {};
};

struct StandIn {
  std::map<std::string, Module> modules = {};
  std::string created = {};              // what the last of them was asked for
  std::string called = {};               // the last forward pass
  std::string started = {};              // the last initial state
  std::vector<std::string> passed = {};  // what was said of backward passes
  std::vector<std::string> kept = {};    // and of values that must stay
};
StandIn& Python() {
  static StandIn python;
  return python;
}

using Answer = std::tuple<std::string, std::vector<at::Tensor>>;

Answer Create(const std::string& text) {
  const std::string module = io::ParseJson(text).Find("module")->as_string();
  if (module == "m:Fails") return {"!ValueError: boom (m.py:1 in __init__)", {}};
  if (module == "m:Large") return {"mneeds a TiB", {}};
  if (module == "m:Absent") return {"cm:Absent: there is no class Absent", {}};
  const std::string key = std::to_string(Python().modules.size());
  const bool has_extras = module == "m:Extras";
  Python().modules[key] = {module == "m:Sum", has_extras, {}};
  Python().created = text;
  const std::string extras =
      has_extras ? R"("losses": {"size": 0.5}, "taps": ["sum"])" : R"("losses": {}, "taps": [])";
  return {R"(={"key": ")" + key + R"(", "has_state": )" + (module == "m:Sum" ? "true" : "false") +
              ", " + extras + R"(, "parameters": [["w", true], ["b", false]]})",
          {at::full({kWidth}, 2.), at::full({kWidth}, 0.5)}};
}

Answer RunModule(std::string_view text, const std::vector<at::Tensor>& tensors) {
  Python().called = text.substr(text.find(' ') + 1);
  const Module& module = Python().modules.at(std::string(text.substr(0, text.find(' '))));
  at::Tensor sum = at::cumsum(tensors[0], 1);
  if (module.has_state) sum = sum + tensors[2].unsqueeze(1);
  std::vector<at::Tensor> results = {sum * module.parameters[0] + module.parameters[1]};
  if (module.has_state) {  // "count", "sum"
    results.push_back(tensors[1] + tensors[0].size(1));
    results.push_back(sum.select(1, -1));
  }
  if (module.has_extras) {
    results.push_back(sum.square().mean());
    results.push_back(sum);
  }
  return {"=", results};
}

Answer AnswerAsPython(std::string_view function, std::string_view text, at::TensorList tensors) {
  if (function == "create") return Create(std::string(text));
  if (function == "install") Python().modules.at(std::string(text)).parameters = tensors.vec();
  if (function == "forward") return RunModule(text, tensors.vec());
  if (function == "describe_code") {
    return {text.starts_with("n:") ? "=sha256:2 torch 2.11.0" : "=sha256:1 torch 2.11.0", {}};
  }
  if (function.ends_with("_backward")) Python().passed.emplace_back(function);
  if (function.ends_with("_values")) Python().kept.emplace_back(function);
  if (function == "initial_state") {
    Python().started = text.substr(text.find(' ') + 1);
    const std::int64_t batch_size = std::stoll(std::string(text.substr(text.rfind(' '))));
    return {R"(=[["count", "position"], ["sum", "recurrent"]])",
            {at::zeros({}, at::kLong), at::zeros({batch_size, kWidth})}};
  }
  return {"=", {}};
}

TORCH_LIBRARY_IMPL(mixerbench, CompositeImplicitAutograd, library) {
  library.impl("python", AnswerAsPython);
}

struct Built {
  std::unique_ptr<models::ParameterSet> parameters;
  std::unique_ptr<models::Mixer> mixer;
};

Built Build(const std::string& module, std::uint64_t seed = 1) {
  Built built;
  models::MixerRegistry registry("mixer");
  RegisterPythonMixer(registry);
  built.parameters = std::make_unique<models::ParameterSet>(seed, models::InitPolicy::kZoology, 2,
                                                            at::kCPU, at::kFloat);
  built.mixer = models::CreateMixer(
      Object{{"name", kPythonMixer}, {"module", module}, {"options", Object{{"a", Array{1, "x"}}}}},
      "/mixer", {.d_model = kWidth, .layer_index = 1, .num_layers = 2, .registry = &registry},
      models::ParameterScope(*built.parameters));
  return built;
}

at::Tensor Expected(const at::Tensor& x) { return at::cumsum(x, 1) * 2 + 0.5; }

TEST_CASE("python mixer: the engine trains the module's parameters, its own values first") {
  const Built built = Build("m:Whole");
  const auto& parameters = built.parameters->parameters();
  REQUIRE(parameters.size() == 2);
  CHECK(parameters[0].name == "w");
  CHECK(parameters[0].weight_decay);
  CHECK_FALSE(parameters[1].weight_decay);
  const at::Tensor x = RandomNormal({2, 5, kWidth}, 1, at::kFloat).requires_grad_(true);
  const at::Tensor y = Forward(*built.mixer, {x}).y;
  CHECK(y.allclose(Expected(x)));
  Backward(y.sum());
  CHECK(parameters[0].tensor.grad().allclose(at::cumsum(x, 1).flatten(0, 1).sum(0)));
  CHECK(parameters[1].tensor.grad().allclose(at::full({kWidth}, 10.)));
  CHECK(x.grad().defined());
}

TEST_CASE("python mixer: the module is told where it stands, and a seed of the cell's") {
  Build("m:Whole", 1);
  const Value first = io::ParseJson(Python().created);
  CHECK(first.Find("d_model")->as_int() == kWidth);
  CHECK(first.Find("layer_idx")->as_int() == 1);
  CHECK(first.Find("num_layers")->as_int() == 2);
  CHECK(*first.Find("options") == Value(Object{{"a", Array{1, "x"}}}));
  CHECK(first.Find("device")->as_string() == "cpu");
  Build("m:Whole", 2);
  CHECK(io::ParseJson(Python().created).Find("seed")->as_int() != first.Find("seed")->as_int());
  Build("m:Whole", 1);
  CHECK(io::ParseJson(Python().created) == first);
}

TEST_CASE("python mixer: cut in pieces it gives what one call gives, with a state and without") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({2, 7, kWidth}, 1, at::kFloat);
  for (const char* module : {"m:Whole", "m:Sum"}) {
    CAPTURE(module);
    const Built built = Build(module);
    models::State state = built.mixer->InitialState(2);
    auto piece = Forward(*built.mixer, {x.narrow(1, 0, 4)},
                         {.initial_state = &state, .want_final_state = true});
    CHECK(piece.y.allclose(Expected(x).narrow(1, 0, 4)));
    for (std::int64_t t = 4; t < 7; ++t) {
      const at::Tensor y = models::Step(*built.mixer, {x.narrow(1, t, 1)}, piece.final_state);
      CHECK(y.allclose(Expected(x).select(1, t)));
    }
  }
}

TEST_CASE("python mixer: what a state costs is told by its kinds") {
  CHECK(models::SizeOf(Build("m:Sum").mixer->InitialState(1), 10).recurrent == kWidth);
  CHECK(models::SizeOf(Build("m:Whole").mixer->InitialState(1), 10).recurrent == 10 * kWidth);
  const models::State state = Build("m:Sum").mixer->InitialState(4);
  CHECK(state.tensors.at("count").kind == StateKind::kPosition);
  CHECK(state.tensors.at("sum").value.size(0) == 4);
}

TEST_CASE("python mixer: training is told apart, with a seed for everything that a call draws") {
  const Built built = Build("m:Whole");
  const at::Tensor x = at::ones({1, 2, kWidth});
  Forward(*built.mixer, {x});
  CHECK(Python().called == "eval 469920933234");
  Forward(*built.mixer, {x}, {.generator = kernels::SeedGenerator(at::full({2}, 41, at::kLong))});
  CHECK(Python().called == "train 41");
  const Built with_state = Build("m:Sum");
  with_state.mixer->InitialState(3);
  CHECK(Python().started == "eval 469920933234 3");
  Forward(*with_state.mixer, {x},
          {.generator = kernels::SeedGenerator(at::full({2}, 43, at::kLong))});
  CHECK(Python().called == "train 43");
  CHECK(Python().started == "train 43 1");
}

TEST_CASE("python mixer: Python hears where a backward pass begins and ends, also where it fails") {
  const at::Tensor x = at::ones({2}).requires_grad_(true);
  Python().passed.clear();
  Backward(x.sum());
  CHECK(Python().passed == std::vector<std::string>{"begin_backward", "end_backward"});
  CHECK_THROWS(Backward(at::ones({2}).sum()));  // has no gradient
  CHECK(Python().passed.size() == 4);
  CHECK(Python().passed.back() == "end_backward");
}

TEST_CASE(
    "python mixer: Python compares values that must stay, unless something has failed before") {
  Python().kept.clear();
  {
    KeptValues values;
    values.End();
  }
  const std::vector<std::string> compared = {"remember_values", "compare_values"};
  CHECK(Python().kept == compared);
  Python().kept.clear();
  { const KeptValues values; }
  const std::vector<std::string> forgotten = {"remember_values", "forget_values"};
  CHECK(Python().kept == forgotten);
}

TEST_CASE("python mixer: auxiliary losses and taps come under the names that the module declares") {
  const Built built = Build("m:Extras");
  CHECK(built.mixer->traits().losses == std::map<std::string, double>{{"size", 0.5}});
  const at::Tensor x = RandomNormal({2, 5, kWidth}, 1, at::kFloat).requires_grad_(true);
  models::TapRecorder recorder;
  const auto result = Forward(*built.mixer, {x}, {.taps = models::TapScope(recorder)});
  CHECK(recorder.records.at("sum").equal(at::cumsum(x, 1)));
  CHECK(result.losses.at("size").equal(at::cumsum(x, 1).square().mean()));
  Backward(result.losses.at("size"));
  CHECK(x.grad().defined());
}

TEST_CASE("python mixer: failures keep their kind") {
  CHECK_THROWS_AS(Build("m:Fails"), PythonError);
  CHECK_THROWS_WITH(Build("m:Fails"), "ValueError: boom (m.py:1 in __init__)");
  CHECK_THROWS_AS(Build("m:Large"), c10::OutOfMemoryError);
  CHECK_THROWS_AS(Build("m:Absent"), ConfigError);
  CHECK_THROWS_WITH(Build(""), Catch::Matchers::StartsWith("/mixer/module: "));
}

TEST_CASE("python mixer: its code is named by class and content, not by where it lies") {
  const auto mixer = [](const char* module) {
    return Value(Object{{"name", kPythonMixer}, {"module", module}});
  };
  const Value model = Object{{"mixers", Array{mixer("m:Sum"), mixer("./m:Sum"), mixer("n:Sum"),
                                              mixer("m:Whole"), Object{{"name", "gla"}}}}};
  Object code;
  const Value named = NamePythonModules(model, code);
  CHECK(Value(code) == Value(Object{{"python:Sum", "sha256:1 torch 2.11.0"},
                                    {"python:Sum#2", "sha256:2 torch 2.11.0"},
                                    {"python:Whole", "sha256:1 torch 2.11.0"}}));
  CHECK(named == Value(Object{{"mixers", Array{mixer("python:Sum"), mixer("python:Sum"),
                                               mixer("python:Sum#2"), mixer("python:Whole"),
                                               Object{{"name", "gla"}}}}}));
}

TEST_CASE("python mixer: a module without a state sees all tokens again in every piece") {
  CHECK(SeesAllTokensAgain(Build("m:Whole").mixer->InitialState(1)));
  CHECK_FALSE(SeesAllTokensAgain(Build("m:Sum").mixer->InitialState(1)));
  models::State holding;
  holding.inner["first"] = Build("m:Whole").mixer->InitialState(1);
  CHECK(SeesAllTokensAgain(holding));
}

}  // namespace
}  // namespace mixerbench::harness
