// Every registered mixer in every configuration it offers for tests, ready to run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/value.h"
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

// A mixer with default initialisation from a fixed seed; every dtype gets the same values, rounded.
class TestMixer {
 public:
  TestMixer(const MixerCase& mixer_case, at::ScalarType dtype);

  const models::Mixer& mixer() const { return *mixer_; }
  // x [B,T,D] with a linear map of each token for every value that the mixer reads.
  models::MixerInputs InputsOf(const at::Tensor& x) const;
  const std::vector<models::Parameter>& parameters() const { return parameters_->parameters(); }

  // y [B,T,D], without gradients, by one call.
  at::Tensor Run(const at::Tensor& x, models::ExecutionPath path) const;

 private:
  std::unique_ptr<models::ParameterSet> parameters_;
  std::unique_ptr<models::Mixer> mixer_;
  std::map<std::string, std::vector<std::int64_t>> value_shapes_;  // without batch and time
};

// Outputs and gradients by name: "y", "final_state.<name>", "dx", "d<parameter>".
using Results = std::map<std::string, at::Tensor>;

// Cuts x into pieces of the given lengths, carries the state from each to the next, and
// differentiates a fixed weighting of y and of the last state.
Results Differentiate(const TestMixer& model, const at::Tensor& x,
                      const std::vector<std::int64_t>& piece_lengths, models::ExecutionPath path);

struct Worst {
  std::string name;
  double error = 0;
};

// The largest ||a-b|| / max(||b||, floor) over all entries whose name starts with `prefix`, where
// floor is 1e-3 of the largest norm among them: a gradient that vanishes is compared with the scale
// of the others.
Worst WorstError(const Results& actual, const Results& expected, const std::string& prefix);

}  // namespace mixerbench::conformance
