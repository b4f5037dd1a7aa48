// Sequences one after the other in one row of tokens ("packed", cu_seqlens) for every mixer: each
// sequence is mixed by itself, those of one length as a batch, so nothing (convolutions, token
// shifts, positions, normalisers, chunks) can leak from one into the next.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/mixer.h"

namespace mixerbench::models {

// Mix of inputs.cu_seqlens; Output and scored positions see the packed tokens [1,T,...] as one
// sequence.
//
// Sequences of one length are one call of `mixer` where nothing is said of single sequences: no
// initial state, no taps, no auxiliary loss. Otherwise every sequence is a call, its taps go to
// "sequences.<s>", and a loss is the mean of those of the sequences, by tokens. States of S
// sequences are State::inner "0", "1", ..., each of a batch of one; an empty sequence keeps its
// own. Errors: std::logic_error for cu_seqlens that are not rising from 0 to T, for B != 1, and for
// an overridden write gate, whose mean would be one over sequences.
Mixed MixPacked(const Mixer& mixer, const MixerInputs& inputs, const MixerOptions& options);

}  // namespace mixerbench::models
