// Which parameters decay, over every mixer that is registered.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "harness/suite/registries.h"
#include "harness/training/optimizer.h"
#include "models/checks/subject.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

TrainConfig Config(bool decay_all_parameters) {
  TrainConfig config;
  config.weight_decay = 0.25;
  config.decay_all_parameters = decay_all_parameters;
  return config;
}

// In layer 1 of two, where a mixer may have more than in layer 0.
std::vector<models::Parameter> ParametersOf(const std::string& mixer, Value options) {
  options.as_object()["name"] = mixer;
  return models::checks::Subject({.config = std::move(options),
                                  .where = "",
                                  .context = {.d_model = 16,
                                              .layer_index = 1,
                                              .num_layers = 2,
                                              .max_seq_len = 160,
                                              .registry = &AllRegistries().mixers}},
                                 at::kFloat)
      .parameters();
}

TEST_CASE("weight decay: with decay_all_parameters off biases, norms and gates have none") {
  for (const auto& [mixer, entry] : AllRegistries().mixers.entries()) {
    std::vector<Value> configs = {Object{}};
    configs.insert(configs.end(), entry.test_configs.begin(), entry.test_configs.end());
    for (const Value& config : configs) {
      for (const models::Parameter& parameter : ParametersOf(mixer, config)) {
        CAPTURE(mixer, parameter.name, parameter.tensor.sizes());
        CHECK(WeightDecayOf(parameter, Config(true)) == 0.25);
        const double decay = WeightDecayOf(parameter, Config(false));
        if (parameter.tensor.dim() < 2 || parameter.name.ends_with("bias") ||
            parameter.name.find("_norm.") != std::string::npos) {
          CHECK(decay == 0);
        }
        if (parameter.name.ends_with("_proj.weight") && parameter.weight_decay) {
          CHECK(decay == 0.25);
        }
      }
    }
  }
}

TEST_CASE("weight decay: the gates whose bias a policy starts are exempt like others") {
  for (const auto& [mixer, bias] :
       std::vector<std::pair<std::string, std::string>>{{"simple_gla", "decay_bias"},
                                                        {"gla", "decay_proj.bias"},
                                                        {"sse", "decay_proj.bias"},
                                                        {"mesa_net", "gate_bias"}}) {
    CAPTURE(mixer);
    bool is_found = false;
    for (const models::Parameter& parameter : ParametersOf(mixer, Object{})) {
      if (parameter.name == "in_proj.weight") {
        CHECK(WeightDecayOf(parameter, Config(false)) == 0.25);
      }
      if (!parameter.name.ends_with(bias)) continue;
      is_found = true;
      CHECK(WeightDecayOf(parameter, Config(false)) == 0);
    }
    CHECK(is_found);
  }
}

}  // namespace
}  // namespace mixerbench::harness
