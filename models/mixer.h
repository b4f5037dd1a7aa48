// The interface of a sequence mixer: wrappers are mixers that hold one.
//
// A mixer is two maps. Mix runs over time and leaves tensors with one entry per token; Output maps
// each token of these to the width of the model. Between the two, and nowhere else, the caller
// selects the tokens whose outputs it wants: the scored positions of a training step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "base/registry.h"
#include "base/value.h"
#include "kernels/core.h"
#include "kernels/layout/rows.h"
#include "kernels/runtime/seed_generator.h"
#include "models/parameters.h"
#include "models/state.h"
#include "models/taps.h"

namespace mixerbench::models {

using kernels::ExecutionPath;
using kernels::NamedTensors;
using kernels::ScoredPositions;

struct MixerInputs {
  at::Tensor x;  // [B,T,D] in the compute dtype
  // [B,T,...], by the names of MixerTraits::reads: what the backbone ("embeddings", those of
  // the tokens; "previous_output", of the mixer before) and earlier layers offer.
  NamedTensors values = {};
  // [S+1] int32 or int64 on the CPU: where each of S sequences that stand one after the other in x
  // (B = 1) begins, and T; undefined: a sequence an entry of the batch. Forward alone reads it and
  // mixes every sequence by itself (models/packing.h, states too): no Mix knows of it, and packing
  // works for every mixer.
  at::Tensor cu_seqlens = {};
};

struct MixerOptions {
  ExecutionPath path = ExecutionPath::kFast;
  const State* initial_state = nullptr;  // nullptr: InitialState(B)
  bool want_final_state = false;
  // Output will read these M of the B*T tokens alone; nullptr: all. Mix may leave out what only the
  // others need. Surplus entries of the selection may then be anything finite.
  const ScoredPositions* scored = nullptr;
  TapScope taps = {};
  // Set in training: dropout and router noise draw their seeds from it.
  std::optional<kernels::SeedGenerator> generator = std::nullopt;

  // For a mixer that is held under `name`: its state and its taps.
  MixerOptions Inner(std::string_view name) const;
};

// One entry per token: [B,T,...], or [M,...] where Mix has selected MixerOptions::scored itself.
struct TokenTensor {
  at::Tensor value;
  bool selected = false;
};

// What Mix leaves.
struct Mixed {
  std::vector<TokenTensor> tokens = {};  // for Output, in an order that only the two know
  std::vector<Mixed> inner = {};         // of the mixers that this one holds, without their states
  State final_state = {};                // of the names of InitialState; empty unless wanted
  NamedTensors offers = {};              // values for later layers, [B,T,...]
  NamedTensors losses = {};              // auxiliary losses: fp32 scalars without weights

  // Takes what a mixer held under `name` left: its state goes under that name, its losses are
  // added to those of the same names.
  void Hold(const std::string& name, Mixed mixed);
  void AddLoss(const std::string& name, const at::Tensor& value);

  // Selects what is not selected yet, of the mixers held too.
  void SelectScored(const ScoredPositions& rows, ExecutionPath path);
};

// What a mixer asks of its caller, and what it gives; a wrapper joins those of what it holds.
struct MixerTraits {
  std::set<std::string> reads = {};           // names of MixerInputs::values
  std::set<std::string> offers = {};          // names of Mixed::offers
  std::map<std::string, double> losses = {};  // names of Mixed::losses with their default weights
  // Chooses among alternatives by comparing numbers (top-k): rounding may change a choice, and with
  // it the output by more than rounding explains.
  bool discrete = false;
  std::int64_t max_seq_len = 0;  // of one call (learned positions, implicit filters); 0: any
  std::int64_t output_dim = 0;   // of Output; 0: d_model
};

class Mixer {
 public:
  virtual ~Mixer() = default;

  virtual MixerTraits traits() const { return {}; }

  // The state before the first token, for a batch: it fixes every name, kind and dtype.
  virtual State InitialState(std::int64_t batch_size) const = 0;

  // Causal over time: what belongs to token t depends on tokens 0..t and the initial state only.
  // Cutting a sequence anywhere and passing the state on gives the same.
  virtual Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const = 0;

  // A map per token, [...] -> [...,output_dim], of mixed.tokens and mixed.inner: all tokens or
  // some, it cannot tell.
  virtual at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const = 0;
};

struct MixerResult {
  at::Tensor y;       // [B,T,D], dtype of x; [M,D] of MixerOptions::scored
  State final_state;  // empty unless wanted
  NamedTensors offers;
  NamedTensors losses;
};

// Mix, then Output: the one place where rows are selected. Throws std::logic_error for cu_seqlens
// that are none (models/packing.h).
MixerResult Forward(const Mixer& mixer, const MixerInputs& inputs,
                    const MixerOptions& options = {});

// One decode step: every tensor of `token` has T = 1; returns [B,D] and replaces `state`. By the
// reference recurrence, so that decoding and prefill are one mechanism.
at::Tensor Step(const Mixer& mixer, const MixerInputs& token, State& state);

struct MixerEntry;
using MixerRegistry = Registry<MixerEntry>;

// What surrounds a mixer.
struct MixerContext {
  std::int64_t d_model = 0;
  std::int64_t layer_index = 0;
  std::int64_t num_layers = 1;
  std::int64_t max_seq_len = 0;             // longest training or evaluation input
  const MixerRegistry* registry = nullptr;  // for wrappers
  std::set<std::string> offered = {};       // what MixerTraits::reads may name
  // False: whoever holds the mixer projects to d_model, so a mixer whose Output ends in a
  // projection leaves it out.
  bool output_projection = true;
};

struct MixerEntry {
  std::string summary;
  std::string source;  // papers with identifiers
  std::vector<FieldInfo> params;
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

// `config` is {"name": ..., options}. Both throw ConfigError at `where`; the first also when the
// mixer reads what context.offered does not have.
std::unique_ptr<Mixer> CreateMixer(const Value& config, const std::string& where,
                                   const MixerContext& context, const ParameterScope& scope);
Value ResolveMixer(const Value& config, const std::string& where, const MixerRegistry& registry);

}  // namespace mixerbench::models
