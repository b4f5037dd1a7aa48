// A mixer to be checked, and what a run of it leaves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/value.h"
#include "models/mixer.h"

namespace mixerbench::models::checks {

struct SubjectSpec {
  Value config;       // with "name"
  std::string where;  // of errors in it
  // Without `offered`: a layer gets all that the backbone and the same mixer in layer 0 offer.
  MixerContext context;
  at::Device device = at::kCPU;
  // Differentiates; a mixer in another language may need another way.
  std::function<void(const at::Tensor& root)> backward = [](const at::Tensor& root) {
    root.backward();
  };
};

// A mixer with default initialisation from a fixed seed; every dtype gets the same values, rounded.
class Subject {
 public:
  // Throws ConfigError.
  Subject(const SubjectSpec& spec, at::ScalarType dtype);

  const Mixer& mixer() const { return *mixer_; }
  const std::vector<Parameter>& parameters() const { return parameters_->parameters(); }
  std::int64_t d_model() const { return spec_.context.d_model; }

  // [B,T,D], standard normal.
  at::Tensor Draw(std::int64_t batch_size, std::int64_t seq_len, std::uint64_t seed,
                  at::ScalarType dtype) const;
  // x [B,T,D] with a linear map of each token for every value that the mixer reads.
  MixerInputs InputsOf(const at::Tensor& x) const;

  // y [B,T,D], without gradients, by one call.
  at::Tensor Run(const at::Tensor& x, ExecutionPath path) const;

  void Backward(const at::Tensor& root) const { spec_.backward(root); }

 private:
  SubjectSpec spec_;
  std::unique_ptr<ParameterSet> parameters_;
  std::unique_ptr<Mixer> mixer_;
  std::map<std::string, std::vector<std::int64_t>> value_shapes_;  // without batch and time
};

// Outputs and gradients by name: "y", "final_state.<name>", "dx", "d<parameter>".
using Results = std::map<std::string, at::Tensor>;

// Cuts x into pieces of the given lengths, carries the state from each to the next, and
// differentiates a fixed weighting of y and of the last state.
Results Differentiate(const Subject& model, const at::Tensor& x,
                      const std::vector<std::int64_t>& piece_lengths, ExecutionPath path);

struct Worst {
  std::string name;
  double error = 0;
};

// The largest ||a-b|| / max(||b||, floor) over all entries whose name starts with `prefix`, where
// floor is 1e-3 of the largest norm among them: a gradient that vanishes is compared with the scale
// of the others.
Worst WorstError(const Results& actual, const Results& expected, const std::string& prefix);

}  // namespace mixerbench::models::checks
