// SPDX-License-Identifier: Apache-2.0
#include "models/packing.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "base/check.h"

namespace mixerbench::models {
namespace {

struct Sequence {
  std::int64_t start = 0;
  std::int64_t length = 0;
  // Where Mix has left it.
  const Mixed* mixed = nullptr;
  std::int64_t entry = 0;  // of the batch
};

std::vector<Sequence> SequencesOf(const MixerInputs& inputs) {
  const at::Tensor& ends = inputs.cu_seqlens;
  Require(inputs.x.size(0) == 1, "packed sequences have a batch of one");
  Require(ends.dim() == 1 && ends.size(0) >= 2 && ends.device().is_cpu(),
          "cu_seqlens is [S+1] on the CPU");
  const at::Tensor whole = ends.to(at::kLong).contiguous();
  const auto* const at = whole.const_data_ptr<std::int64_t>();
  Require(at[0] == 0 && at[whole.size(0) - 1] == inputs.x.size(1),
          "cu_seqlens starts at 0 and ends at T");
  std::vector<Sequence> sequences;
  for (std::int64_t s = 0; s + 1 < whole.size(0); ++s) {
    Require(at[s] <= at[s + 1], "cu_seqlens does not fall");
    sequences.push_back({.start = at[s], .length = at[s + 1] - at[s]});
  }
  return sequences;
}

// Indices of sequences that are one call, in order of their lengths; empty ones need none.
std::vector<std::vector<std::size_t>> CallsOf(const std::vector<Sequence>& sequences,
                                              bool one_by_one) {
  std::map<std::pair<std::int64_t, std::size_t>, std::vector<std::size_t>> calls;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    if (sequences[s].length == 0) continue;
    calls[{sequences[s].length, one_by_one ? s : 0}].push_back(s);
  }
  std::vector<std::vector<std::size_t>> result;
  for (auto& [key, call] : calls) result.push_back(std::move(call));
  return result;
}

// [1,T,...] -> [number of sequences, their length, ...].
at::Tensor Unpack(const at::Tensor& packed, const std::vector<Sequence>& sequences,
                  const std::vector<std::size_t>& call) {
  std::vector<at::Tensor> parts;
  for (const std::size_t s : call) {
    parts.push_back(packed.narrow(1, sequences[s].start, sequences[s].length));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

// The tensor that `get` finds in what was mixed, of all sequences in order; undefined where it is.
template <typename Get>
at::Tensor Pack(const std::vector<Sequence>& sequences, const Get& get) {
  std::vector<at::Tensor> parts;
  for (const Sequence& sequence : sequences) {
    if (sequence.mixed == nullptr) continue;
    const at::Tensor& batch = get(*sequence.mixed);
    if (!batch.defined()) return {};
    parts.push_back(batch.narrow(0, sequence.entry, 1));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, 1);
}

// Tokens, of the mixers that are held too.
Mixed PackTokens(const std::vector<Sequence>& sequences, const Mixed& any) {
  Mixed packed;
  for (std::size_t i = 0; i < any.tokens.size(); ++i) {
    packed.tokens.push_back(
        {Pack(sequences, [i](const Mixed& mixed) { return mixed.tokens[i].value; })});
  }
  for (std::size_t i = 0; i < any.inner.size(); ++i) {
    std::vector<Sequence> held = sequences;
    for (Sequence& sequence : held) {
      if (sequence.mixed != nullptr) sequence.mixed = &sequence.mixed->inner[i];
    }
    packed.inner.push_back(PackTokens(held, any.inner[i]));
  }
  return packed;
}

// Of one entry of a batch.
State EntryOf(const State& batch, std::int64_t entry) {
  State state = batch;
  ForEach(state, [entry](const std::string&, StateTensor& tensor) {
    if (tensor.kind != StateKind::kPosition) tensor.value = tensor.value.narrow(0, entry, 1);
  });
  return state;
}

}  // namespace

Mixed MixPacked(const Mixer& mixer, const MixerInputs& inputs, const MixerOptions& options) {
  Require(!options.taps.Overrides(), "write gates of packed sequences cannot be overridden");
  std::vector<Sequence> sequences = SequencesOf(inputs);
  const bool one_by_one =
      options.initial_state != nullptr || options.taps || !mixer.traits().losses.empty();
  const auto calls = CallsOf(sequences, one_by_one);
  Require(!calls.empty(), "packed sequences have tokens");
  std::vector<Mixed> mixed;
  mixed.reserve(calls.size());
  for (const std::vector<std::size_t>& call : calls) {
    MixerInputs own{.x = Unpack(inputs.x, sequences, call)};
    for (const auto& [name, value] : inputs.values) {
      own.values[name] = Unpack(value, sequences, call);
    }
    MixerOptions own_options = options;
    own_options.scored = nullptr;
    if (one_by_one) {
      const std::string name = std::to_string(call[0]);
      own_options.initial_state = Inner(options.initial_state, name);
      own_options.taps = options.taps.Child("sequences." + name);
    }
    mixed.push_back(mixer.Mix(own, own_options));
    for (std::size_t entry = 0; entry < call.size(); ++entry) {
      sequences[call[entry]].mixed = &mixed.back();
      sequences[call[entry]].entry = static_cast<std::int64_t>(entry);
    }
  }
  Mixed packed = PackTokens(sequences, mixed[0]);
  for (const auto& [name, value] : mixed[0].offers) {
    packed.offers[name] =
        Pack(sequences, [&name = name](const Mixed& of) { return of.offers.at(name); });
  }
  const auto num_tokens = static_cast<double>(inputs.x.size(1));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto share = static_cast<double>(sequences[calls[i][0]].length) / num_tokens;
    for (const auto& [name, value] : mixed[i].losses) packed.AddLoss(name, value * share);
  }
  if (!options.want_final_state) return packed;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const Sequence& sequence = sequences[s];
    const std::string name = std::to_string(s);
    State& state = packed.final_state.inner[name];
    if (sequence.mixed != nullptr) {
      state = EntryOf(sequence.mixed->final_state, sequence.entry);
    } else {
      const State* const initial = Inner(options.initial_state, name);
      state = initial != nullptr ? *initial : mixer.InitialState(1);
    }
  }
  return packed;
}

}  // namespace mixerbench::models
