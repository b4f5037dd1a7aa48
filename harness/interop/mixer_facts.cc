// SPDX-License-Identifier: Apache-2.0
#include "harness/interop/mixer_facts.h"

#include <memory>
#include <set>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>

#include "base/dotted_path.h"
#include "base/error.h"
#include "harness/device/device_plans.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::harness {
namespace {

constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kLongestInput = 1024;
constexpr std::int64_t kNumTokens = 4;  // of the run that tells the cores

// "recurrent": a state of one size; "cache": one that grows; "none".
std::string FormOf(const MixerFacts& facts) {
  if (facts.state_per_token > 0) return "cache";
  return facts.state.recurrent + facts.state.conv > 0 ? "recurrent" : "none";
}

bool HasDefaults(const models::MixerEntry& mixer, const models::MixerRegistry& mixers) {
  try {
    mixer.resolve(Object{}, "", mixers);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// Names of what the mixer, and those that it holds, would record.
std::vector<std::string> TapsOf(const models::Mixer& mixer, const models::MixerInputs& inputs) {
  std::set<std::string> taps;
  models::TapRecorder recorder{.wants =
                                   [&](std::string_view path) {
                                     taps.emplace(LastPart(path));
                                     return true;
                                   },
                               .override_write_gate = std::nullopt,
                               .records = {}};
  models::Forward(mixer, inputs, {.taps = models::TapScope(recorder)});
  return {taps.begin(), taps.end()};
}

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

}  // namespace

std::optional<MixerFacts> MeasureMixer(const std::string& name, const Registries& registries) {
  if (!HasDefaults(registries.mixers.Find(name, "mixer"), registries.mixers)) return std::nullopt;
  const at::NoGradGuard no_grad;
  models::ParameterSet parameters(1, models::InitPolicy::kDefault, 2, at::kCPU, at::kFloat);
  const auto mixer = models::CreateMixer(Object{{"name", name}}, "/mixer",
                                         {.d_model = kWidth,
                                          .num_layers = 2,
                                          .max_seq_len = kLongestInput,
                                          .registry = &registries.mixers,
                                          .offered = {"embeddings"}},
                                         models::ParameterScope(parameters));
  const models::State initial = mixer->InitialState(1);
  MixerFacts facts{.d_model = kWidth,
                   .num_parameters = parameters.num_elements(),
                   .state = models::SizeOf(initial),
                   .traits = mixer->traits()};
  const std::int64_t grown = models::SizeOf(initial, kLongestInput).recurrent;
  facts.state_per_token =
      static_cast<double>(grown - facts.state.recurrent) / static_cast<double>(kLongestInput);

  models::MixerInputs inputs{.x = at::ones({1, kNumTokens, kWidth})};
  for (const std::string& value : facts.traits.reads) inputs.values[value] = inputs.x;
  const kernels::PlanRecorder recorder;
  models::Forward(*mixer, inputs);
  std::set<std::string> cores;
  for (const kernels::PlanRecord& record : recorder.records()) {
    if (registries.cores.entries().contains(record.function)) cores.insert(record.function);
  }
  facts.cores.assign(cores.begin(), cores.end());
  facts.taps = TapsOf(*mixer, inputs);
  return facts;
}

Object FactsToValue(const MixerFacts& facts, const Registries& registries) {
  Array cores;
  for (const std::string& core : facts.cores) {
    cores.emplace_back(Object{
        {"name", core},
        {"device_plans", DevicePlansToValue(registries.cores.entries().at(core).device_plans)}});
  }
  Object losses;
  for (const auto& [loss, weight] : facts.traits.losses) losses[loss] = weight;
  return {{"form", FormOf(facts)},
          {"d_model", facts.d_model},
          {"num_parameters", facts.num_parameters},
          {"state", Object{{"recurrent", facts.state.recurrent},
                           {"conv", facts.state.conv},
                           {"recurrent_per_token", facts.state_per_token}}},
          {"cores", std::move(cores)},
          {"reads", Array(facts.traits.reads.begin(), facts.traits.reads.end())},
          {"offers", Array(facts.traits.offers.begin(), facts.traits.offers.end())},
          {"losses", std::move(losses)},
          {"discrete", facts.traits.discrete},
          {"taps", Array(facts.taps.begin(), facts.taps.end())}};
}

std::string FactsToText(const MixerFacts& facts) {
  std::string text = "with d_model " + std::to_string(facts.d_model) + ": " +
                     std::to_string(facts.num_parameters) + " parameters, state of " +
                     std::to_string(facts.state.recurrent) + " elements";
  if (facts.state_per_token > 0) {
    text += " and " + std::to_string(static_cast<std::int64_t>(facts.state_per_token)) + " a token";
  }
  if (facts.state.conv > 0) {
    text += ", " + std::to_string(facts.state.conv) + " of convolutions and token shifts";
  }
  return text + "\ncores: " + Joined(facts.cores) + "\ntaps: " + Joined(facts.taps) + "\n";
}

}  // namespace mixerbench::harness
