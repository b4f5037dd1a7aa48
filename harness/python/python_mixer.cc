// SPDX-License-Identifier: Apache-2.0
#include "harness/python/python_mixer.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "base/error.h"
#include "base/fields.h"
#include "harness/python/draws.h"
#include "harness/python/host.h"
#include "harness/python/module_state.h"
#include "io/json.h"
#include "models/mixer_entry.h"

namespace mixerbench::harness {
namespace {

using models::Mixed;
using models::State;
using models::StateKind;

constexpr double kNumSeeds = 0x1p53;               // a double holds them all
constexpr std::int64_t kFixedSeed = 0x6D69786572;  // one that no class sets: one that is set shows

struct PythonConfig {
  std::string module;
  Value options = Object{};
};

const Fields<PythonConfig>& ConfigFields() {
  static const auto fields =
      Fields<PythonConfig>()
          .Add("module", &PythonConfig::module, "a class: FILE.py:Class or package.module:Class")
          .Add("options", &PythonConfig::options, "its arguments by name");
  return fields;
}

PythonConfig Parse(const Value& config, const std::string& where) {
  PythonConfig parsed = ConfigFields().Parse(config, where);
  if (parsed.module.empty()) {
    throw ConfigError(where + "/module", "name a class: FILE.py:Class or package.module:Class");
  }
  if (!parsed.options.is_object()) {
    throw ConfigError(where + "/options", "expected an object, the class's arguments by name");
  }
  return parsed;
}

StateKind KindOf(const std::string& name) {
  if (name == "cache") return StateKind::kCache;
  return name == "position" ? StateKind::kPosition : StateKind::kRecurrent;
}

class PythonMixer final : public models::Mixer {
 public:
  PythonMixer(const PythonConfig& config, const models::MixerContext& context,
              const models::ParameterScope& scope)
      : options_(scope.special_options().requires_grad(false)), d_model_(context.d_model) {
    const double seed = scope.Draw("seed", {1}, models::Init::Uniform(0, kNumSeeds)).item<double>();
    const PythonReply reply =
        CallPython("create", io::DumpJson(Object{{"module", config.module},
                                                 {"options", config.options},
                                                 {"d_model", context.d_model},
                                                 {"layer_idx", context.layer_index},
                                                 {"num_layers", context.num_layers},
                                                 {"max_seq_len", context.max_seq_len},
                                                 {"seed", static_cast<std::int64_t>(seed)},
                                                 {"device", options_.device().str()},
                                                 {"double", options_.dtype() == at::kDouble}}));
    const Value facts = io::ParseJson(reply.text);
    key_ = facts.Find("key")->as_string();
    has_state_ = facts.Find("has_state")->as_bool();
    for (const auto& [name, weight] : facts.Find("losses")->as_object()) {
      traits_.losses[name] = weight.as_double();
    }
    for (const Value& name : facts.Find("taps")->as_array()) taps_.push_back(name.as_string());
    AddParameters(facts.Find("parameters")->as_array(), reply.tensors, scope);
  }

  ~PythonMixer() override {
    try {
      CallPython("destroy", key_);
    } catch (const std::exception&) {  // nobody is left to tell
    }
  }
  PythonMixer(const PythonMixer&) = delete;
  PythonMixer& operator=(const PythonMixer&) = delete;

  models::MixerTraits traits() const override { return traits_; }

  State InitialState(std::int64_t batch_size) const override {
    return InitialState(batch_size, CallOf({}));
  }

  Mixed Mix(const models::MixerInputs& inputs, const models::MixerOptions& options) const override {
    return has_state_ ? MixWithState(inputs.x, options) : MixWhole(inputs.x, options);
  }

  at::Tensor Output(const Mixed& mixed, const models::MixerOptions&) const override {
    return mixed.tokens[0].value;
  }

 private:
  // The values are the module's own; what is trained are the set's tensors, which the module then
  // holds instead.
  void AddParameters(const Array& described, const std::vector<at::Tensor>& values,
                     const models::ParameterScope& scope) {
    std::vector<at::Tensor> own;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Array& name_and_decay = described[i].as_array();
      const std::string& name = name_and_decay[0].as_string();
      if (!name_and_decay[1].as_bool()) {
        own.push_back(scope.AddSpecial(name, values[i]));
        continue;
      }
      // A role whose values no policy replaces.
      own.push_back(scope.Add(name, values[i].sizes().vec(), models::ParameterRole::kOwnWeight,
                              models::Init::Constant(0)));
      const at::NoGradGuard no_grad;
      own.back().copy_(values[i]);
    }
    CallPython("install", key_, own);
  }

  // "key train seed": the seed of everything that the call draws on the CPU. For a cell on a GPU
  // only the device knows it.
  std::string CallOf(const models::MixerOptions& options) const {
    std::string call = key_ + (options.generator ? " train" : " eval");
    const bool is_known = options.generator && options_.device().is_cpu();
    const std::int64_t seed =
        is_known ? options.generator->Next(options_.device()).item<std::int64_t>() : kFixedSeed;
    return call + " " + std::to_string(seed);
  }

  // Of a function that runs the module.
  PythonReply Call(const std::string& function, const std::string& text,
                   const std::vector<at::Tensor>& tensors = {}) const {
    const DrawsOfCall draws(options_.device(), /*seed=*/0);
    return CallPython(function, text, tensors);
  }

  State InitialState(std::int64_t batch_size, const std::string& call) const {
    if (!has_state_) {
      return {.tensors = {{kModuleInputs,
                           {at::empty({batch_size, 0, d_model_}, options_), StateKind::kCache}}}};
    }
    const PythonReply reply = Call("initial_state", call + " " + std::to_string(batch_size));
    const Value described = io::ParseJson(reply.text);
    State state;
    for (std::size_t i = 0; i < reply.tensors.size(); ++i) {
      const Array& name_and_kind = described.as_array()[i].as_array();
      state.tensors[name_and_kind[0].as_string()] = {reply.tensors[i],
                                                     KindOf(name_and_kind[1].as_string())};
    }
    return state;
  }

  // Without a state the module sees all tokens again.
  Mixed MixWhole(const at::Tensor& x, const models::MixerOptions& options) const {
    const at::Tensor earlier = models::Find(options.initial_state, kModuleInputs);
    at::Tensor all = x;
    if (earlier.defined() && earlier.size(1) > 0)
      all = at::cat({earlier.to(x.scalar_type()), x}, 1);
    const std::vector<at::Tensor> results = Call("forward", CallOf(options), {all}).tensors;
    Mixed mixed;
    mixed.tokens = {{results.at(0).narrow(1, all.size(1) - x.size(1), x.size(1))}};
    TakeExtras(results, 1, options, mixed);
    if (options.want_final_state) {
      mixed.final_state.tensors[kModuleInputs] = {all.to(options_.dtype()), StateKind::kCache};
    }
    return mixed;
  }

  Mixed MixWithState(const at::Tensor& x, const models::MixerOptions& options) const {
    const std::string call = CallOf(options);
    State state =
        options.initial_state != nullptr ? *options.initial_state : InitialState(x.size(0), call);
    std::vector<at::Tensor> tensors = {x};
    for (const auto& [name, tensor] : state.tensors) tensors.push_back(tensor.value);
    const std::vector<at::Tensor> results = Call("forward", call, tensors).tensors;
    Mixed mixed;
    mixed.tokens = {{results.at(0)}};
    TakeExtras(results, 1 + state.tensors.size(), options, mixed);
    if (!options.want_final_state) return mixed;
    std::size_t next = 1;
    for (auto& [name, tensor] : state.tensors) tensor.value = results.at(next++);
    mixed.final_state = std::move(state);
    return mixed;
  }

  // The losses and taps that the module has declared, by name, from results[next] on.
  void TakeExtras(const std::vector<at::Tensor>& results, std::size_t next,
                  const models::MixerOptions& options, Mixed& mixed) const {
    for (const auto& [name, weight] : traits_.losses) mixed.AddLoss(name, results.at(next++));
    for (const std::string& name : taps_) options.taps.Record(name, results.at(next++));
  }

  at::TensorOptions options_;
  std::int64_t d_model_;
  std::string key_;
  bool has_state_ = false;
  models::MixerTraits traits_;
  std::vector<std::string> taps_;
};

std::unique_ptr<models::Mixer> Create(const Value& config, const std::string& where,
                                      const models::MixerContext& context,
                                      const models::ParameterScope& scope) {
  return std::make_unique<PythonMixer>(Parse(config, where), context, scope);
}

}  // namespace

Object NameMixer(const std::string& text) {
  const bool is_python = text.find(':') != std::string::npos || text.ends_with(".py");
  return is_python ? Object{{"name", kPythonMixer}, {"module", text}} : Object{{"name", text}};
}

void RegisterPythonMixer(models::MixerRegistry& registry) {
  models::MixerEntry entry;
  entry.summary = "a torch.nn.Module of your own, in Python";
  entry.source = "the module";
  entry.params = ConfigFields().Describe();
  entry.create = Create;
  entry.resolve = [](const Value& config, const std::string& where, const models::MixerRegistry&) {
    return ConfigFields().Write(Parse(config, where));
  };
  registry.Add(kPythonMixer, std::move(entry));
}

std::string PythonPackageCode() { return CallPython("describe_package", "").text; }

Value NamePythonModules(const Value& model, Object& code) {
  Value named = model;
  if (model.is_array()) {
    for (Value& item : named.as_array()) item = NamePythonModules(item, code);
  }
  if (!model.is_object()) return named;
  for (auto& [key, item] : named.as_object()) item = NamePythonModules(item, code);
  const Value* name = model.Find("name");
  const Value* module = model.Find("module");
  if (name == nullptr || !(*name == Value(kPythonMixer)) || module == nullptr) return named;
  const std::string& place = module->as_string();
  const Value description = CallPython("describe_code", place).text;
  const std::string of_class = std::string(kPythonMixer) + place.substr(place.rfind(':'));
  std::string unique = of_class;
  for (int number = 2; !(code.try_emplace(unique, description).first->second == description);) {
    unique = of_class + "#" + std::to_string(number++);
  }
  named.as_object()["module"] = unique;
  return named;
}

}  // namespace mixerbench::harness
