// What a mixer carries from one call to the next: named tensors with a kind, nested where mixers
// hold mixers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace mixerbench::models {

// What a tensor of a state is, which decides how it is counted.
enum class StateKind {
  kRecurrent,    // [B,...]: matrices and vectors of a recurrence, of any dtype
  kConvolution,  // [B,W-1,C]: the last inputs of a convolution of width W
  kTokenShift,   // [B,C]: the last input
  kCache,        // [B,S,...]: grows with the sequence
  kPartial,      // [B,...]: inside an unfinished chunk or mini-batch
  kPosition,     // int64 scalar on the CPU, so that it may decide shapes without a wait
};

struct StateTensor {
  at::Tensor value;  // may be complex; in files then pairs of reals, [...,2]
  StateKind kind = StateKind::kRecurrent;
  std::int64_t tokens_per_row = 1;  // of a cache: it has one row for that many tokens
};

// A value of any dtypes: a call returns a new one and never writes to the one that it was given.
struct State {
  std::map<std::string, StateTensor, std::less<>> tensors = {};
  std::map<std::string, State, std::less<>> inner = {};  // of the mixers that this one holds
};

// The tensor `name` of a state that must have it; undefined for nullptr.
at::Tensor Find(const State* state, std::string_view name);

// The state of the mixer held under `name`, which must be there; nullptr for nullptr.
const State* Inner(const State* state, std::string_view name);

// Visits every tensor, in order of names, with its dotted path ("inner.name").
void ForEach(State& state,
             const std::function<void(const std::string& path, StateTensor& tensor)>& visit);
void ForEach(const State& state,
             const std::function<void(const std::string& path, const StateTensor& tensor)>& visit);

// Elements carried between decode steps for one sequence, by the convention of the published
// tables: `conv` counts W entries per channel of a convolution of width W and one per channel of a
// token shift; caches are `recurrent`; a complex number counts as two reals; what is partial or a
// position is not counted.
struct StateSize {
  std::int64_t recurrent = 0;
  std::int64_t conv = 0;
};

// Of a state of a batch of one, `more_tokens` tokens later: caches have grown by then.
StateSize SizeOf(const State& state, std::int64_t more_tokens = 0);

// Bytes of all tensors, whatever they are.
std::int64_t BytesOf(const State& state);

}  // namespace mixerbench::models
