// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/trained_model.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include "base/error.h"
#include "harness/suite/task_plan.h"

namespace mixerbench::harness {
namespace {

constexpr std::int64_t kProbeTokens = 64;

bool Fits(const FinalWeights& weights, const Model& model) {
  const auto& parameters = model.parameters->parameters();
  return parameters.size() == weights.parameters.size() &&
         std::all_of(parameters.begin(), parameters.end(), [&](const auto& parameter) {
           const auto found = weights.parameters.find(parameter.name);
           return found != weights.parameters.end() &&
                  found->second.sizes() == parameter.tensor.sizes();
         });
}

void Copy(const FinalWeights& weights, const Model& model) {
  const at::NoGradGuard no_grad;
  for (const auto& parameter : model.parameters->parameters()) {
    at::Tensor(parameter.tensor).copy_(weights.parameters.at(parameter.name));
  }
}

// Whether models that are built for these lengths begin with the same weights.
bool BeginAlike(const Model& a, const Model& b) {
  const auto& left = a.parameters->parameters();
  const auto& right = b.parameters->parameters();
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const auto& x, const auto& y) {
                      return x.name == y.name && x.tensor.sizes() == y.tensor.sizes() &&
                             at::equal(x.tensor, y.tensor);
                    });
}

// Whether a training is the same when its model is built for either length: it begins with the same
// weights, and the model with these computes the same, to the bit.
bool IsSameTraining(const FinalWeights& weights, const Cell& cell, std::int64_t one_length,
                    std::int64_t other_length, const Registries& registries) {
  const at::NoGradGuard no_grad;
  const Model one = BuildModel(cell, at::kCPU, registries, one_length);
  const Model other = BuildModel(cell, at::kCPU, registries, other_length);
  if (!BeginAlike(one, other) || !Fits(weights, one)) return false;
  Copy(weights, one);
  Copy(weights, other);
  const std::int64_t num_tokens = std::min({one_length, other_length, kProbeTokens});
  const at::Tensor tokens =
      at::arange(num_tokens, at::kLong).remainder(cell.task.vocab_size).unsqueeze(0);
  return at::equal(one.backbone->Forward(tokens, {}).hidden,
                   other.backbone->Forward(tokens, {}).hidden);
}

}  // namespace

void TakeWeights(const FinalWeights& weights, const Cell& cell, const Model& model,
                 std::int64_t max_seq_len, const Registries& registries) {
  const Value* task = weights.training.config.Find("task");
  if (task == nullptr) throw Error(ExitCode::kBadInput, "weights that do not say what they are of");
  const std::int64_t trained_for = TaskPlanFromValue(*task, registries.tasks).max_seq_len;
  if (trained_for != max_seq_len &&
      !IsSameTraining(weights, cell, trained_for, max_seq_len, registries)) {
    throw Error(ExitCode::kBadInput, "weights of a model for inputs of up to " +
                                         std::to_string(trained_for) + " tokens, and for " +
                                         std::to_string(max_seq_len) + " it is another");
  }
  if (!Fits(weights, model)) throw Error(ExitCode::kBadInput, "weights of another model");
  Copy(weights, model);
}

TrainedModel LoadTrainedModel(const Cell& cell, at::Device device, const Registries& registries,
                              const std::filesystem::path& weights_folder) {
  std::vector<std::string> problems;
  auto weights = WeightsFolder(weights_folder, cell.training_id).Load(problems);
  if (!weights) {
    throw Error(ExitCode::kBadInput,
                "no weights of its training" +
                    (problems.empty() ? " are in the folder" : ": " + problems.front()));
  }
  Model model = BuildModel(cell, device, registries, cell.trained_max_seq_len);
  TakeWeights(*weights, cell, model, cell.trained_max_seq_len, registries);
  return {std::move(model), std::move(*weights)};
}

}  // namespace mixerbench::harness
