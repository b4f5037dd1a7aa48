// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/model_checks.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <c10/util/Exception.h>

#include "base/error.h"
#include "base/suggest.h"

namespace mixerbench::harness {
namespace {

bool IsAutoencoder(const std::string& backbone, const Registries& registries) {
  return registries.backbones.Find(backbone, "/model/backbone").is_autoencoder;
}

// A weight of a loss that the model does not have would do nothing.
void CheckLossNames(const Value& weights, const std::map<std::string, double>& losses) {
  std::vector<std::string> known;
  for (const auto& [name, weight] : losses) known.push_back(name);
  for (const auto& [name, weight] : weights.as_object()) {
    if (losses.contains(name)) continue;
    throw ConfigError("/train/auxiliary_losses/" + name,
                      known.empty() ? "this model has no auxiliary losses"
                                    : UnknownName("auxiliary loss", name, known));
  }
}

bool HasStateSpaces(const models::ParameterSet& parameters) {
  const auto& all = parameters.parameters();
  return std::any_of(all.begin(), all.end(), [](const models::Parameter& parameter) {
    return parameter.lr_group == kStateSpaceGroup;
  });
}

// Whether a mixer has them with its default options; one without defaults is not asked.
bool HasStateSpaces(const std::string& mixer, const Registries& registries) {
  constexpr std::int64_t kWidth = 128;
  models::ParameterSet parameters(0, models::InitPolicy::kDefault, /*num_layers=*/1, at::kMeta,
                                  at::kFloat);
  try {
    models::CreateMixer(Object{{"name", mixer}}, "",
                        {.d_model = kWidth,
                         .num_layers = 1,
                         .max_seq_len = kWidth,
                         .registry = &registries.mixers,
                         .offered = {"embeddings"}},
                        models::ParameterScope(parameters));
  } catch (const ConfigError&) {
    return false;
  }
  return HasStateSpaces(parameters);
}

// Nor would a rate for parameters that it does not have. Names mixers that do: others that are
// called state spaces have steps and decays that depend on the input.
void CheckStateSpaceRate(const TrainConfig& train, const models::ParameterSet& parameters,
                         const Registries& registries) {
  if (train.ssm_lr == 0 || HasStateSpaces(parameters)) return;
  std::string known;
  for (const auto& [name, entry] : registries.mixers.entries()) {
    if (HasStateSpaces(name, registries)) known += (known.empty() ? "" : ", ") + name;
  }
  throw ConfigError("/train/ssm_lr",
                    "is the rate of time-invariant state spaces, of which this model has none (" +
                        known + " have); leave it at 0");
}

}  // namespace

void CheckModel(const Cell& cell, const Registries& registries) {
  const auto& entry = registries.backbones.Find(cell.Backbone(), "/model/backbone");
  const Value config = cell.BackboneOptions();
  models::ParameterSet parameters(0, entry.init_policy(config), entry.num_layers(config), at::kMeta,
                                  at::kFloat);
  try {
    const auto backbone = entry.create(config, "/model",
                                       {.vocab_size = cell.task.vocab_size,
                                        .max_seq_len = cell.task.max_seq_len,
                                        .mixers = &registries.mixers},
                                       parameters);
    CheckLossNames(cell.train.auxiliary_losses, backbone->losses());
    CheckStateSpaceRate(cell.train, parameters, registries);
  } catch (const c10::Error& error) {
    const std::string reason = error.what_without_backtrace();
    throw ConfigError("/model",
                      "no tensors of these sizes: " + reason.substr(0, reason.find('\n')));
  }
}

void CheckTaskSuitsModel(const Cell& cell, const Registries& registries) {
  const std::string& backbone = cell.Backbone();
  const bool is_autoencoder = IsAutoencoder(backbone, registries);
  if (registries.tasks.Find(cell.task.name, "/task").needs_autoencoder == is_autoencoder) return;
  if (is_autoencoder) {
    throw ConfigError("/model/backbone", "'" + backbone +
                                             "' is an auto-encoder, which only tasks "
                                             "that reproduce their input ask for; '" +
                                             cell.task.name + "' needs another backbone");
  }
  std::string known;
  for (const auto& [name, entry] : registries.backbones.entries()) {
    if (entry.is_autoencoder) known += (known.empty() ? "" : ", ") + name;
  }
  throw ConfigError("/model/backbone",
                    "'" + cell.task.name + "' asks for the tokens at their own positions, which '" +
                        backbone +
                        "' reads and copies: it would score 1 with any mixer. It needs " +
                        "an auto-encoder: " + known);
}

void CheckPieces(const Cell& cell, const Registries& registries) {
  const std::string& backbone = cell.Backbone();
  if (!IsAutoencoder(backbone, registries)) return;
  if (cell.task.max_seq_len <= cell.train.eval_piece_len) return;
  throw ConfigError("/train/eval_piece_len",
                    "'" + backbone + "' reads an input in one call: at least " +
                        std::to_string(cell.task.max_seq_len) + ", the longest input");
}

void CheckPhases(const Cell& cell, const ThroughputPlan& plan, const Registries& registries) {
  const std::string& backbone = cell.Backbone();
  if (!IsAutoencoder(backbone, registries)) return;
  for (const char* phase : {"prefill", "decode"}) {
    if (!plan.Measures(phase)) continue;
    throw ConfigError("/throughput/phases", "'" + backbone +
                                                "' reads an input in one call and goes on from no "
                                                "state, so it has no " +
                                                phase + "; take fwd, fwd_bwd or train_step");
  }
}

}  // namespace mixerbench::harness
