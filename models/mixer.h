// The interface of a sequence mixer, final for every mixer: wrappers are mixers that hold one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "base/registry.h"
#include "base/value.h"
#include "kernels/core.h"
#include "kernels/fused/rows.h"
#include "kernels/seed_generator.h"
#include "models/parameters.h"
#include "models/taps.h"

namespace mixerbench::models {

using kernels::ExecutionPath;
using kernels::NamedTensors;

// What a mixer carries from one call to the next, by name: recurrent matrices, key-value caches,
// the last inputs of short convolutions, positions. A value: calls return a new one. Names that
// end in "conv" hold the last W-1 inputs [B,W-1,C] of a convolution of width W.
using State = NamedTensors;

struct ForwardOptions {
  ExecutionPath path = ExecutionPath::kFast;
  const State* initial_state = nullptr;  // nullptr: InitialState()
  bool want_final_state = false;
  Taps* taps = nullptr;  // nullptr: nothing is recorded, no cost
  std::optional<kernels::SeedGenerator> generator =
      std::nullopt;  // set in training: dropout and router noise draw their seeds from it
  // The mixer may return the bias of its last projection apart, for whoever adds y to something.
  bool split_bias = false;
  // Only these M of the B*T outputs are wanted; nullptr: all. A mixer may then leave out what
  // only the others need (queries, gates, what follows its core) and return y [M,D], or return all
  // of y. Surplus entries of the selection may then be anything finite.
  const kernels::fused::RowSelection* rows = nullptr;
};

struct MixerOutput {
  at::Tensor y;               // [B,T,D], dtype of x; may be [M,D] of ForwardOptions::rows
  at::Tensor bias;            // [D], to be added to every row of y; undefined: none, or in y
  State final_state;          // empty unless wanted
  at::Tensor auxiliary_loss;  // scalar, undefined when the mixer has none
};

// Elements carried between decode steps for one sequence, by the convention of the published
// tables: `conv` counts W entries per channel of a width-W convolution.
struct StateSize {
  std::int64_t recurrent = 0;
  std::int64_t conv = 0;
};

class Mixer {
 public:
  virtual ~Mixer() = default;

  // A causal map over time: x [B,T,D] -> y [B,T,D]; y[:, t] depends on x[:, :t+1] and the initial
  // state only. Cutting a sequence anywhere and passing the state on gives the same y.
  virtual MixerOutput Forward(const at::Tensor& x, const ForwardOptions& options) const = 0;

  // The state before the first token, for a batch; dtype and device of the parameters.
  virtual State InitialState(std::int64_t batch_size) const = 0;

  // One decode step: x_t [B,D] -> y_t [B,D]; replaces `state`. The default is Forward on one token
  // by the reference recurrence, so that decoding and prefill are one mechanism.
  virtual at::Tensor Step(const at::Tensor& x_t, State& state) const;

  // After `num_tokens` tokens; constant for recurrent mixers.
  virtual StateSize state_size(std::int64_t num_tokens) const = 0;

  // At most one call of Forward may be this long (learned positions, implicit filters), 0: any.
  virtual std::int64_t max_seq_len() const { return 0; }
};

struct MixerEntry;
using MixerRegistry = Registry<MixerEntry>;

// What surrounds a mixer.
struct MixerContext {
  std::int64_t d_model = 0;
  std::int64_t layer_index = 0;
  std::int64_t num_layers = 1;
  std::int64_t max_seq_len = 0;             // longest training or evaluation input
  const MixerRegistry* registry = nullptr;  // for wrappers
};

struct MixerEntry {
  std::string summary;
  std::string source;  // papers with identifiers
  std::vector<FieldInfo> params;
  bool deterministic = true;
  // Builds the mixer and its parameters. `config` holds the options without "name"; `where` is its
  // JSON pointer. Throws ConfigError for unknown options and impossible sizes.
  std::function<std::unique_ptr<Mixer>(const Value& config, const std::string& where,
                                       const MixerContext& context, const ParameterScope& scope)>
      create;
  // `config` with every default filled in; wrappers resolve what they hold.
  std::function<Value(const Value& config, const std::string& where, const MixerRegistry& registry)>
      resolve;
  // Configurations (without "name", for d_model 16) that together set every option to something
  // other than its default; the conformance suite runs each next to the defaults.
  std::vector<Value> test_configs;
};

// Registers every folder of models/mixers/ (generated).
void RegisterMixers(MixerRegistry& registry);

// SHA-256 of the code that one mixer is made of, the cores that it calls included (generated).
std::string_view MixerCodeHash(std::string_view mixer);

// `config` is {"name": ..., options}. Both throw ConfigError at `where`.
std::unique_ptr<Mixer> CreateMixer(const Value& config, const std::string& where,
                                   const MixerContext& context, const ParameterScope& scope);
Value ResolveMixer(const Value& config, const std::string& where, const MixerRegistry& registry);

}  // namespace mixerbench::models
