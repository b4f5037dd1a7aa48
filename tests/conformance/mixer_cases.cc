// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/mixer_cases.h"

#include <cstdlib>
#include <set>
#include <sstream>
#include <utility>

namespace mixerbench::conformance {
namespace {

std::set<std::string> ReadsOf(const MixerCase& mixer_case) {
  return TestMixer(mixer_case, at::kFloat).mixer().traits().reads;
}

bool IsAskedFor(const std::string& mixer) {
  const char* const asked = std::getenv("MIXERBENCH_MIXERS");
  if (asked == nullptr) return true;
  std::istringstream names(asked);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == mixer) return true;
  }
  return false;
}

}  // namespace

const models::MixerRegistry& Mixers() {
  static const auto registry = [] {
    models::MixerRegistry built("mixer");
    models::RegisterMixers(built);
    return built;
  }();
  return registry;
}

MixerCase CaseOf(Object config) {
  const std::string name = config.at("name").as_string();
  return {name, Value(std::move(config))};
}

std::vector<MixerCase> MixerCases() {
  std::vector<MixerCase> cases;
  for (const auto& [name, entry] : Mixers().entries()) {
    if (!IsAskedFor(name)) continue;
    std::vector<Value> configs = {Object{}};
    configs.insert(configs.end(), entry.test_configs.begin(), entry.test_configs.end());
    for (std::size_t i = 0; i < configs.size(); ++i) {
      configs[i].as_object()["name"] = name;
      const std::string label = name + "[" + std::to_string(i) + "]";
      cases.push_back({label, configs[i]});
      const MixerCase in_layer_1 = {label + " in layer 1", configs[i], 1};
      if (ReadsOf(in_layer_1) != ReadsOf(cases.back())) cases.push_back(in_layer_1);
    }
  }
  return cases;
}

models::checks::SubjectSpec SpecOf(const MixerCase& mixer_case) {
  return {.config = mixer_case.config,
          .where = "",
          .context = {.d_model = kModelDim,
                      .layer_index = mixer_case.layer_index,
                      .num_layers = 2,
                      .max_seq_len = kMaxSeqLen,
                      .registry = &Mixers()}};
}

}  // namespace mixerbench::conformance
