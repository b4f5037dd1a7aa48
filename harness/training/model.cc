// SPDX-License-Identifier: Apache-2.0
#include "harness/training/model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "harness/device/graph.h"
#include "harness/suite/data.h"

namespace mixerbench::harness {

Model BuildModel(const Cell& cell, at::Device device, const Registries& registries,
                 std::int64_t max_seq_len, at::ScalarType dtype) {
  const auto& entry = registries.backbones.Find(cell.Backbone(), "/model/backbone");
  const Value config = cell.BackboneOptions();
  Model model;
  model.parameters = std::make_unique<models::ParameterSet>(
      DeriveSeed(cell.seed, "init"), entry.init_policy(config), entry.num_layers(config), device,
      dtype);
  model.backbone =
      entry.create(config, "/model",
                   {.vocab_size = cell.task.vocab_size,
                    .max_seq_len = max_seq_len > 0 ? max_seq_len : cell.task.max_seq_len,
                    .mixers = &registries.mixers},
                   *model.parameters);
  return model;
}

at::ScalarType ComputeDtype(Dtype dtype) {
  return dtype == Dtype::kBf16 ? at::kBFloat16 : at::kFloat;
}

reports::ModelFacts MeasureModel(const Model& model, std::int64_t num_tokens, at::Device device,
                                 at::ScalarType compute_dtype) {
  const at::NoGradGuard no_grad;
  const FirstRun alone(device);
  reports::ModelFacts facts;
  facts.num_parameters = model.parameters->num_elements();
  facts.state_at_num_tokens = num_tokens;
  const at::Tensor tokens =
      at::zeros({1, num_tokens}, at::TensorOptions().dtype(at::kInt).device(device));
  const auto output =
      model.backbone->Forward(tokens, {.compute_dtype = compute_dtype, .want_final_state = true});
  facts.state_bytes_measured = models::BytesOf(output.final_state);
  const models::StateSize size = models::SizeOf(model.backbone->InitialState(1), num_tokens);
  facts.state_bytes_declared =
      (size.recurrent + size.conv) * static_cast<std::int64_t>(sizeof(float));
  return facts;
}

}  // namespace mixerbench::harness
