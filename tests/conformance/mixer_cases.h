// Every registered mixer in every configuration it offers for tests, ready to run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/value.h"
#include "models/checks/subject.h"
#include "models/mixer.h"

namespace mixerbench::conformance {

inline constexpr std::int64_t kModelDim = 16;
inline constexpr std::int64_t kMaxSeqLen = 160;

const models::MixerRegistry& Mixers();

struct MixerCase {
  std::string label;             // "gla[1]"; [0] are the defaults; "rwkv7[0] in layer 1"
  Value config;                  // with "name"
  std::int64_t layer_index = 0;  // of two; layer 0 holds the same mixer
};

// Those of layer 1 too where the mixer reads there what layer 0 does not read. In development,
// MIXERBENCH_MIXERS="gla,retnet" in the environment leaves out the cases of all others.
std::vector<MixerCase> MixerCases();

// The case for a configuration {"name": ..., options}.
MixerCase CaseOf(Object config);

models::checks::SubjectSpec SpecOf(const MixerCase& mixer_case);

class TestMixer : public models::checks::Subject {
 public:
  TestMixer(const MixerCase& mixer_case, at::ScalarType dtype)
      : Subject(SpecOf(mixer_case), dtype) {}
};

using models::checks::Differentiate;
using models::checks::Results;
using models::checks::Worst;
using models::checks::WorstError;

}  // namespace mixerbench::conformance
