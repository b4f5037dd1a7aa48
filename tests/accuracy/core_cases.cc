// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "kernels/core_testing.h"
#include "tests/accuracy/cases.h"
#include "tests/accuracy/covering.h"
#include "tests/accuracy/growth.h"

namespace mixerbench::accuracy {
namespace {

using kernels::CoreEntry;
using kernels::InputKind;
using testing::CoreCase;

constexpr std::int64_t kNumHeads = 2;

// Decays of a whole case: those of trained models, some that forget all, none at all.
struct Decays {
  const char* name;
  bool with_optional;
  std::vector<double> log_decays;
};

const std::vector<Decays>& AllDecays() {
  static const std::vector<Decays> decays = {{"mixed", true, {0, -0.01, -1, -20}},
                                             {"weak", true, {-0.01}},
                                             {"moderate", true, {-3.7}},
                                             {"strong", true, {-20}},
                                             {"none", false, {0}}};
  return decays;
}

class CoreSubject final : public Subject {
 public:
  CoreSubject(const CoreEntry& core, const CoreCase& sizes, bool initial_state)
      : core_(core), sizes_(sizes) {
    // Values that bf16 represents serve every precision.
    sizes_.dtype = at::kBFloat16;
    CoreCase with_states = sizes_;
    with_states.with_optional = true;
    const NamedTensors all = testing::DrawInputs(core, with_states, /*seed=*/7);
    for (const auto& spec : core.inputs) {
      const bool is_state = spec.kind == InputKind::kState;
      if (is_state ? !initial_state : !(spec.required || sizes_.with_optional)) continue;
      const at::Tensor value = all.at(spec.name).to(at::kBFloat16).to(at::kDouble);
      if (spec.shape.starts_with("B")) {
        inputs_[spec.name] = value;
      } else {
        for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
          parameters_[dtype][spec.name] = value.to(dtype).detach().requires_grad_(true);
        }
      }
    }
  }

  const NamedTensors& inputs() const override { return inputs_; }

  at::ScalarType InputType(const std::string& name, at::ScalarType dtype) const override {
    const auto spec = std::find_if(core_.inputs.begin(), core_.inputs.end(),
                                   [&](const auto& input) { return input.name == name; });
    if (spec->full_precision && spec->kind != InputKind::kState) {
      return dtype == at::kDouble ? at::kDouble : at::kFloat;
    }
    switch (spec->kind) {
      case InputKind::kDense:
      case InputKind::kUnitNorm:
        return dtype;
      case InputKind::kLogDecay:
      case InputKind::kUnit:
        return dtype == at::kDouble ? at::kDouble : at::kFloat;
      case InputKind::kState:
        return StateType(name, dtype);
    }
    Require(false, "unknown kind of input");
    return dtype;
  }

  std::vector<std::pair<std::string, at::Tensor>> Parameters(at::ScalarType dtype) const override {
    const NamedTensors& parameters = ParametersFor(dtype);
    return {parameters.begin(), parameters.end()};
  }

  NamedTensors Run(const NamedTensors& inputs, std::int64_t, ExecutionPath path,
                   at::ScalarType dtype) const override {
    NamedTensors all = inputs;
    for (const auto& [name, value] : ParametersFor(dtype)) all[name] = value;
    return core_.run(all, {.path = path});
  }

 private:
  // What all sequences share, at least in fp32.
  const NamedTensors& ParametersFor(at::ScalarType dtype) const {
    return parameters_.at(dtype == at::kDouble ? at::kDouble : at::kFloat);
  }

  // That of the final state which a call leaves.
  at::ScalarType StateType(const std::string& name, at::ScalarType dtype) const {
    CoreCase small = sizes_;
    small.dtype = dtype;
    small.with_optional = true;
    small.batch_size = small.seq_len = 1;
    return testing::DrawInputs(core_, small, /*seed=*/7).at(name).scalar_type();
  }

  const CoreEntry& core_;
  CoreCase sizes_;
  NamedTensors inputs_;
  std::map<at::ScalarType, NamedTensors> parameters_ = {{at::kDouble, {}}, {at::kFloat, {}}};
};

enum Factor { kKeyDim, kValueDim, kRivals, kSeqLen, kDecays, kInitialState, kNumFactors };

// Of one row of levels.
struct CorePoint {
  CoreCase sizes;
  std::string decays;
  bool initial_state = false;
};

template <typename T>
const T& At(const std::vector<T>& values, int index) {
  return values[static_cast<std::size_t>(index)];
}

CorePoint PointOf(const Levels& levels, const Sizes& sizes, at::Device device) {
  const Decays& decays = At(AllDecays(), levels[kDecays]);
  return {.sizes = {.batch_size = BatchSize(At(sizes.num_rivals, levels[kRivals]), kNumHeads),
                    .seq_len = At(sizes.seq_len, levels[kSeqLen]),
                    .num_heads = kNumHeads,
                    .head_k_dim = At(sizes.head_k_dim, levels[kKeyDim]),
                    .head_v_dim = At(sizes.head_v_dim, levels[kValueDim]),
                    .with_optional = decays.with_optional,
                    .log_decays = decays.log_decays,
                    .device = device},
          .decays = decays.name,
          .initial_state = levels[kInitialState] == 1};
}

class CoreFactors {
 public:
  CoreFactors(const CoreEntry& core, const Sizes& sizes, at::Device device)
      : sizes_(sizes), device_(device) {
    if (sizes.max_operations == 0) return;
    Levels smallest(kNumFactors, 0);
    growth_ = Growth([&](std::int64_t seq_len) {
      CoreCase c = PointOf(smallest, sizes, at::kCPU).sizes;
      c.batch_size = 1;
      c.seq_len = seq_len;
      return std::make_unique<CoreSubject>(core, c, /*initial_state=*/false);
    });
  }

  std::vector<Levels> Cover() const {
    const auto count = [](const auto& levels) { return static_cast<int>(levels.size()); };
    CoveringProblem problem;
    problem.num_levels = {count(sizes_.head_k_dim), count(sizes_.head_v_dim),
                          count(sizes_.num_rivals), count(sizes_.seq_len),
                          count(AllDecays()),       2};
    problem.interactions = AllPairs(kNumFactors);
    problem.interactions.push_back({kKeyDim, kValueDim, kRivals});
    problem.allowed = [this](const Levels& levels) {
      return NumElements(levels) <= sizes_.max_elements &&
             Refusal(At(sizes_.seq_len, levels[kSeqLen])).empty();
    };
    problem.cost = [this](const Levels& levels) {
      return Cost(Operations(levels), static_cast<double>(NumElements(levels)));
    };
    return accuracy::Cover(problem);
  }

  double Operations(const Levels& levels) const {
    return growth_.Operations(At(sizes_.seq_len, levels[kSeqLen]));
  }

  std::string Refusal(std::int64_t seq_len) const {
    return growth_.Refusal(seq_len, sizes_.max_operations);
  }

 private:
  std::int64_t NumElements(const Levels& levels) const {
    const CoreCase c = PointOf(levels, sizes_, device_).sizes;
    return c.batch_size * c.seq_len * c.num_heads * std::max(c.head_k_dim, c.head_v_dim);
  }

  const Sizes& sizes_;
  at::Device device_;
  Growth growth_;
};

}  // namespace

std::vector<Case> CoreCases(const kernels::CoreRegistry& cores, const std::string& name,
                            const Sizes& sizes, at::Device device) {
  const CoreEntry& core = cores.Find(name, "");
  const CoreFactors factors(core, sizes, device);
  std::vector<Case> cases;
  for (const Levels& levels : factors.Cover()) {
    const CorePoint point = PointOf(levels, sizes, device);
    const CoreCase& c = point.sizes;
    cases.push_back({.unit = "core " + name,
                     .factors = {{"batch_size", c.batch_size},
                                 {"seq_len", c.seq_len},
                                 {"num_heads", c.num_heads},
                                 {"head_k_dim", c.head_k_dim},
                                 {"head_v_dim", c.head_v_dim},
                                 {"decays", point.decays},
                                 {"initial_state", point.initial_state}},
                     .make = [&core, point]() -> std::unique_ptr<Subject> {
                       return std::make_unique<CoreSubject>(core, point.sizes, point.initial_state);
                     },
                     .operations = factors.Operations(levels)});
  }
  for (const std::int64_t seq_len : sizes.seq_len) {
    const std::string refusal = factors.Refusal(seq_len);
    if (refusal.empty()) continue;
    cases.push_back({.unit = "core " + name,
                     .factors = {{"batch_size", "any"},
                                 {"seq_len", seq_len},
                                 {"num_heads", "any"},
                                 {"head_k_dim", "any"},
                                 {"head_v_dim", "any"},
                                 {"decays", "any"},
                                 {"initial_state", "any"}},
                     .left_out = refusal});
  }
  return cases;
}

}  // namespace mixerbench::accuracy
