// The interface of a backbone: tokens in, hidden states out, and a head that is applied only to
// the positions somebody asks for. (B, T, V) logits are never formed in training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/layout/rows.h"
#include "kernels/linear/linear.h"
#include "models/mixer.h"

namespace mixerbench::models {

// What turns hidden states into logits: hidden weight^T + bias.
struct Head {
  at::Tensor weight;                   // [vocab_size, D]
  at::Tensor bias;                     // [vocab_size]; undefined without
  kernels::ShadowWeights narrow = {};  // their copies in bf16, where there are any
};

struct BackboneOutput {
  at::Tensor hidden;  // [B,T,D] after the final norm, compute dtype; [M,D] of BackboneOptions::rows
  State final_state;  // as InitialState(); empty unless wanted
  NamedTensors
      losses;  // auxiliary losses of the mixers: fp32 scalars summed over layers, no weights
  // That of the backbone. A loss takes this one: a weight that the embedding shares is an output of
  // this forward pass, and its two gradients are formed as one.
  Head head;
};

struct BackboneOptions {
  ExecutionPath path = ExecutionPath::kFast;
  at::ScalarType compute_dtype = at::kFloat;  // of matrix products and of the residual stream
  const State* initial_state = nullptr;       // nullptr: InitialState()
  bool want_final_state = false;
  TapScope taps = {};  // paths start with the layer: "layers.0.write_gate"
  std::optional<kernels::SeedGenerator> generator = std::nullopt;  // set in training
  // Only the hidden states of these M of the B*T tokens are wanted; nullptr: all.
  const kernels::ScoredPositions* scored = nullptr;
};

class Backbone {
 public:
  virtual ~Backbone() = default;

  // tokens [B,T] int32 or int64.
  virtual BackboneOutput Forward(const at::Tensor& tokens,
                                 const BackboneOptions& options) const = 0;

  virtual Head head() const = 0;

  // hidden [N,D] -> logits [N, vocab_size] in the dtype of `hidden`.
  at::Tensor Logits(const at::Tensor& hidden, ExecutionPath path = ExecutionPath::kFast) const;

  // Those of the mixers, under "layers.<i>", and its own.
  virtual State InitialState(std::int64_t batch_size) const = 0;

  // Names of BackboneOutput::losses with their default weights.
  virtual std::map<std::string, double> losses() const = 0;
};

struct BackboneContext {
  std::int64_t vocab_size = 0;
  std::int64_t max_seq_len = 0;  // longest training or evaluation input
  const MixerRegistry* mixers = nullptr;
};

struct BackboneEntry {
  std::string summary;
  std::string source;
  std::vector<FieldInfo> params;
  // Answers every position from one vector that it has made of the whole input, which tasks with
  // needs_autoencoder (tasks/task.h) ask for and all others do not.
  bool is_autoencoder = false;
  std::function<InitPolicy(const Value& config)> init_policy;
  std::function<std::unique_ptr<Backbone>(const Value& config, const std::string& where,
                                          const BackboneContext& context, ParameterSet& parameters)>
      create;
  std::function<Value(const Value& config, const std::string& where, const MixerRegistry& mixers)>
      resolve;
  // Number of layers as its InitPolicy counts them, needed before the backbone exists.
  std::function<std::int64_t(const Value& config)> num_layers;
  // Configurations that together set every option to something other than its default.
  std::vector<Value> test_configs;
};

using BackboneRegistry = Registry<BackboneEntry>;

// Registers every folder of models/backbones/ (generated).
void RegisterBackbones(BackboneRegistry& registry);

// SHA-256 of the code that one backbone is made of, mixers aside (generated).
std::string_view BackboneCodeHash(std::string_view backbone);

}  // namespace mixerbench::models
