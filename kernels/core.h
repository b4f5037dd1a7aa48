// Cores: the recurrences inside mixers, on plain tensors without parameters.
//
// A core is a pure function of named tensors. Its folder holds the maths, a token-by-token
// reference and a chunked or parallel fast path; mixers call those functions directly, while this
// descriptor serves the conformance tests and `mixerbench core run`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/registry.h"
#include "kernels/runtime/device_plan.h"
#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

using NamedTensors = std::map<std::string, at::Tensor>;

// How to draw a legal random value of an input, for tests and benchmarks.
enum class InputKind {
  kDense,     // standard normal
  kUnitNorm,  // standard normal, L2-normalised over the last axis
  kLogDecay,  // <= 0
  kUnit,      // in [0, 1]
  kState,     // an initial state
};

struct TensorSpec {
  std::string name;   // "q", "log_decay", "initial_state", ...
  std::string shape;  // axes as letters, "B T H K"; V, K, H and B as in docs/ARCHITECTURE.md
  InputKind kind = InputKind::kDense;
  bool required = true;
  bool full_precision = false;  // fp32 whatever the dtype of q, and fp64 for fp64; else as q
  std::string help;
};

struct CoreOptions {
  ExecutionPath path = ExecutionPath::kFast;
  double scale = 0;              // multiplies q.k; 0 means K^-0.5
  std::int64_t chunk_size = 64;  // tokens per chunk of the fast path; changes speed, not results
};

struct CoreEntry {
  std::string summary;
  std::string source;
  std::vector<TensorSpec> inputs;   // dense inputs first, states last
  std::vector<TensorSpec> outputs;  // "o", then the final states
  // Final state `x` of a call is initial state `y` of the next: pairs {x, y}.
  std::vector<std::pair<std::string, std::string>> state_pairs;
  // What device code takes, the preferred plan first.
  std::vector<DevicePlan> device_plans;
  // Differentiable. Throws std::logic_error when shapes or dtypes disagree.
  std::function<NamedTensors(const NamedTensors& inputs, const CoreOptions& options)> run;
};

using CoreRegistry = Registry<CoreEntry>;

// Registers every folder of kernels/ (generated).
void RegisterCores(CoreRegistry& registry);

}  // namespace mixerbench::kernels
