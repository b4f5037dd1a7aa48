// SPDX-License-Identifier: Apache-2.0
#include "models/checks/mixer_checks.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>

#include "base/check.h"
#include "models/checks/tensors.h"

namespace mixerbench::models::checks {
namespace {

// bf16 rounds at 2^-9 = 0.002 and a mixer chains about ten roundings.
constexpr double kBfloatTolerance = 0.03;
constexpr std::int64_t kSeqLen = 70;   // more than a chunk
constexpr std::int64_t kChanged = 66;  // a token of the second chunk
constexpr double kVisible = 1e-3;      // a change that is no rounding

const std::pair<ExecutionPath, std::string> kPaths[] = {
    {ExecutionPath::kReference, "reference path"}, {ExecutionPath::kFast, "fast path"}};

at::Tensor DrawExact(const Candidate& candidate, std::int64_t batch_size, std::int64_t seq_len) {
  return candidate.InExact().Draw(batch_size, seq_len, 1, candidate.exact());
}

Finding CheckUse(const Candidate& candidate) {
  const Subject& model = candidate.InExact();
  const at::Tensor x = DrawExact(candidate, 2, kSeqLen);
  const at::Tensor changed = x.clone();
  changed.select(1, kChanged).add_(1);
  Finding finding;
  for (const auto& [path, name] : kPaths) {
    const double change = RelativeError(model.Run(changed, path).select(1, kChanged),
                                        model.Run(x, path).select(1, kChanged));
    finding.Holds(change > kVisible,
                  name +
                      ": it does not, so the other checks would pass whatever the mixer did (is "
                      "its output projection initialised to zero?)");
  }
  return finding;
}

Finding CheckCausality(const Candidate& candidate) {
  const Subject& model = candidate.InExact();
  const at::Tensor x = DrawExact(candidate, 2, kSeqLen);
  const at::Tensor changed = x.clone();
  changed.select(1, kChanged).add_(1);
  Finding finding;
  for (const auto& [path, name] : kPaths) {
    const at::Tensor before = model.Run(x, path).narrow(1, 0, kChanged);
    const at::Tensor after = model.Run(changed, path).narrow(1, 0, kChanged);
    // Not by bits: a Fourier transform mixes all positions and separates them again.
    finding.AtMost(name, RelativeError(after, before), candidate.tolerances().same_maths);
  }
  return finding;
}

Finding CheckPoison(const Candidate& candidate) {
  const Subject& model = candidate.InExact();
  const double tolerance = candidate.tolerances().same_maths;
  const at::Tensor x = DrawExact(candidate, 2, kSeqLen);
  const at::Tensor poisoned = x.clone();
  poisoned[1][kChanged].fill_(std::numeric_limits<double>::quiet_NaN());
  Finding finding;
  for (const auto& [path, name] : kPaths) {
    const at::Tensor before = model.Run(x, path);
    const at::Tensor after = model.Run(poisoned, path);
    finding.AtMost(name + ", another sequence", RelativeError(after[0], before[0]), tolerance);
    finding.AtMost(name + ", earlier outputs",
                   RelativeError(after[1].narrow(0, 0, kChanged), before[1].narrow(0, 0, kChanged)),
                   tolerance);
    finding.Holds(after[1][kChanged].isnan().all().item<bool>(),
                  name + ": the output at a NaN is finite, which hides it");
  }
  return finding;
}

Finding CheckPrefix(const Candidate& candidate) {
  const Subject& model = candidate.InExact();
  const at::Tensor x = DrawExact(candidate, 2, kSeqLen);
  const at::Tensor whole = model.Run(x, ExecutionPath::kFast);
  Finding finding;
  for (const std::int64_t length : {1, 63, 65}) {
    const at::Tensor prefix = model.Run(x.narrow(1, 0, length), ExecutionPath::kFast);
    finding.AtMost("length " + std::to_string(length),
                   RelativeError(prefix, whole.narrow(1, 0, length)),
                   candidate.tolerances().same_maths);
  }
  return finding;
}

Finding CheckBatch(const Candidate& candidate) {
  const Subject& model = candidate.InExact();
  const at::Tensor x = DrawExact(candidate, 3, kSeqLen);
  const at::Tensor batch = model.Run(x, ExecutionPath::kFast);
  Finding finding;
  for (std::int64_t b = 0; b < 3; ++b) {
    const at::Tensor alone = model.Run(x.narrow(0, b, 1), ExecutionPath::kFast);
    finding.AtMost("sequence " + std::to_string(b), RelativeError(alone, batch.narrow(0, b, 1)),
                   candidate.tolerances().same_maths);
  }
  return finding;
}

Finding CheckLayout(const Candidate& candidate) {
  const Subject& model = candidate.InExact();
  const at::Tensor x = DrawExact(candidate, 2, 11);
  Finding finding;
  for (const auto& [path, name] : kPaths) {
    finding.AtMost(name, RelativeError(model.Run(StridedCopy(x), path), model.Run(x, path)),
                   candidate.tolerances().same_maths);
  }
  return finding;
}

Finding CheckPieces(const Candidate& candidate) {
  const Subject& model = candidate.InExact();
  const at::Tensor x = DrawExact(candidate, 2, kSeqLen);
  const Results whole = Differentiate(model, x, {kSeqLen}, ExecutionPath::kFast);
  Finding finding;
  for (const std::vector<std::int64_t>& pieces :
       std::vector<std::vector<std::int64_t>>{{1, 2, 67}, {65, 5}, {64, 1, 1, 4}}) {
    const Worst worst =
        WorstError(Differentiate(model, x, pieces, ExecutionPath::kFast), whole, "");
    finding.AtMost(std::to_string(pieces.size()) + " pieces, " + worst.name, worst.error,
                   candidate.tolerances().carried);
  }
  return finding;
}

std::map<std::string, at::Tensor> TensorsOf(const State& state) {
  std::map<std::string, at::Tensor> tensors;
  ForEach(state, [&](const std::string& path, const StateTensor& tensor) {
    tensors[path] = tensor.value;
  });
  return tensors;
}

Finding CheckDecoding(const Candidate& candidate) {
  constexpr std::int64_t kSteps = 9;
  const at::NoGradGuard no_grad;
  const Subject& model = candidate.InExact();
  const double tolerance = candidate.tolerances().carried;
  const at::Tensor x = DrawExact(candidate, 2, kSteps);
  State state = model.mixer().InitialState(2);
  std::vector<at::Tensor> steps;
  for (std::int64_t t = 0; t < kSteps; ++t) {
    steps.push_back(Step(model.mixer(), model.InputsOf(x.narrow(1, t, 1)), state));
  }
  const MixerResult whole = Forward(model.mixer(), model.InputsOf(x), {.want_final_state = true});
  Finding finding;
  finding.AtMost("y", RelativeError(at::stack(steps, 1), whole.y), tolerance);
  const auto stepped = TensorsOf(state);
  const auto called = TensorsOf(whole.final_state);
  finding.Holds(stepped.size() == called.size(), "steps leave another state than one call");
  for (const auto& [name, value] : called) {
    const auto found = stepped.find(name);
    finding.Holds(found != stepped.end(), "steps leave no state " + name);
    if (found != stepped.end()) {
      finding.AtMost("final_state." + name, RelativeError(found->second, value), tolerance);
    }
  }
  return finding;
}

// "name: kind, dtype" of every tensor.
std::vector<std::string> LayoutOf(const State& state) {
  std::vector<std::string> layout;
  ForEach(state, [&](const std::string& path, const StateTensor& tensor) {
    layout.push_back(path + ": " + std::to_string(static_cast<int>(tensor.kind)) + ", " +
                     at::toString(tensor.value.scalar_type()));
  });
  return layout;
}

Finding CheckState(const Candidate& candidate) {
  const at::NoGradGuard no_grad;
  const Subject& model = candidate.In(at::kFloat);
  const State initial = model.mixer().InitialState(1);
  Finding finding;
  for (const std::int64_t seq_len : {1, 7}) {
    const at::Tensor x = model.Draw(1, seq_len, 1, at::kFloat);
    const State state =
        Forward(model.mixer(), model.InputsOf(x), {.want_final_state = true}).final_state;
    const std::string behind = "behind " + std::to_string(seq_len) + " tokens the state has ";
    finding.Holds(LayoutOf(state) == LayoutOf(initial), behind + "other tensors than at first");
    const StateSize expected = SizeOf(initial, seq_len);
    finding.Holds(
        SizeOf(state).recurrent == expected.recurrent && SizeOf(state).conv == expected.conv,
        behind + "another size");
  }
  return finding;
}

// <y, weight> without gradients.
double Objective(const Subject& model, const at::Tensor& x, const at::Tensor& weight) {
  return model.Run(x, ExecutionPath::kFast).to(at::kDouble).mul(weight).sum().item<double>();
}

// What only chooses has no gradient, and changes nothing.
double Along(const at::Tensor& gradient, const at::Tensor& direction) {
  return gradient.defined() ? gradient.mul(direction).sum().item<double>() : 0.0;
}

Finding CheckGradients(const Candidate& candidate) {
  const Subject& model = candidate.InExact();
  const double step = candidate.tolerances().step;
  const at::Tensor x = DrawExact(candidate, 2, 6).requires_grad_(true);
  const at::Tensor weight = model.Draw(2, 6, 2, at::kDouble);
  model.Backward(Forward(model.mixer(), model.InputsOf(x)).y.mul(weight).sum());
  std::vector<Parameter> leaves = model.parameters();
  leaves.push_back({"x", x, ParameterRole::kSpecial, false});
  std::uint64_t seed = 10;
  Finding finding;
  for (const Parameter& leaf : leaves) {
    const at::NoGradGuard no_grad;
    const at::ScalarType dtype = leaf.tensor.scalar_type();
    at::Tensor direction = RandomNormal(leaf.tensor.sizes(), ++seed, dtype, leaf.tensor.device());
    direction = direction / direction.norm();
    const at::Tensor here = leaf.tensor.clone();
    const auto at_offset = [&](double offset) {
      leaf.tensor.add_(direction, offset);
      const double value = Objective(model, x, weight);
      leaf.tensor.copy_(here);
      return value;
    };
    const double numeric = (at_offset(step) - at_offset(-step)) / (2 * step);
    const double analytic = Along(leaf.tensor.grad(), direction);
    finding.AtMost("d" + leaf.name,
                   std::abs(numeric - analytic) / std::max(1.0, std::abs(analytic)),
                   candidate.tolerances().derivative);
  }
  for (const Parameter& parameter : model.parameters()) {
    at::Tensor tensor = parameter.tensor;
    tensor.mutable_grad().reset();
  }
  return finding;
}

bool AllFinite(const at::Tensor& x) { return at::isfinite(x).all().item<bool>(); }

Finding CheckRepeats(const Candidate& candidate) {
  struct Poisoned {
    MemoryFill earlier = PoisonMemory();
    Poisoned() = default;
    ~Poisoned() { SetMemoryFill(earlier); }
    Poisoned(const Poisoned&) = delete;
    Poisoned& operator=(const Poisoned&) = delete;
  };
  const Subject& model = candidate.In(at::kFloat);
  const at::Tensor x = model.Draw(2, 67, 1, at::kFloat);
  Finding finding;
  for (const auto& [path, path_name] : kPaths) {
    const Results plain = Differentiate(model, x, {67}, path);
    const Poisoned poisoned;
    const Results again = Differentiate(model, x, {67}, path);
    for (const auto& [name, value] : plain) {
      finding.Holds(AllFinite(value), path_name + ": " + name + " is not finite");
      finding.Holds(BitwiseEqual(again.at(name), value),
                    path_name + ": " + name +
                        " has other bits the second time, with memory that was not written to "
                        "filled with NaN");
    }
  }
  return finding;
}

Finding CheckRandomness(const Candidate& candidate) {
  const at::NoGradGuard no_grad;
  const Subject& model = candidate.In(at::kFloat);
  const at::Tensor x = model.Draw(2, 9, 1, at::kFloat);
  const auto run = [&] {
    return Forward(model.mixer(), model.InputsOf(x),
                   {.generator = at::detail::createCPUGenerator(1)})
        .y;
  };
  Finding finding;
  finding.Holds(BitwiseEqual(run(), run()), "y has other bits with the same seed");
  return finding;
}

Finding CheckWeights(const Candidate& candidate) {
  const std::vector<Parameter>& exact = candidate.InExact().parameters();
  const std::vector<Parameter>& rounded = candidate.In(at::kFloat).parameters();
  Finding finding;
  finding.Holds(exact.size() == rounded.size(), "another number of parameters");
  for (std::size_t i = 0; i < std::min(exact.size(), rounded.size()); ++i) {
    finding.Holds(BitwiseEqual(exact[i].tensor.to(at::kFloat), rounded[i].tensor.to(at::kFloat)),
                  exact[i].name + " has other values");
  }
  return finding;
}

Finding CheckBfloat(const Candidate& candidate) {
  const Subject& model = candidate.In(at::kFloat);
  const at::Tensor x = model.Draw(2, 67, 1, at::kBFloat16);
  Finding finding;
  for (const auto& [path, path_name] : kPaths) {
    const Results low = Differentiate(model, x, {3, 64}, path);
    const Results high = Differentiate(model, x.to(at::kFloat), {67}, path);
    finding.Holds(low.at("y").scalar_type() == at::kBFloat16, path_name + ": y is not bf16");
    if (!model.mixer().traits().discrete) {
      finding.AtMost(path_name + ", y", RelativeError(low.at("y"), high.at("y")), kBfloatTolerance);
    }
    for (const auto& [name, value] : low) {
      finding.Holds(AllFinite(value), path_name + ": " + name + " is not finite");
    }
  }
  return finding;
}

}  // namespace

Tolerances TolerancesOf(at::ScalarType dtype) {
  // float64 rounds at 1e-16. Central differences: truncation step^2 and rounding 1e-16 / step, both
  // near 1e-10, times the derivatives of a product of ten factors.
  if (dtype == at::kDouble) return {1e-12, 1e-10, 1e-7, 1e-5};
  // float32 rounds at 6e-8; matrix products on a GPU may run in tf32, whose 2^-11 the carried state
  // and the derivative allow for.
  return {1e-5, 1e-3, 3e-2, 1e-2};
}

Candidate::Candidate(SubjectSpec spec, at::ScalarType exact)
    : spec_(std::move(spec)), exact_(exact), tolerances_(TolerancesOf(exact)) {}

const Subject& Candidate::In(at::ScalarType dtype) const {
  std::unique_ptr<Subject>& subject = subjects_[dtype];
  if (subject == nullptr) subject = std::make_unique<Subject>(spec_, dtype);
  return *subject;
}

void Finding::AtMost(const std::string& place, double measured, double allowed) {
  Require(allowed > 0, "a measurement has a tolerance");
  const bool is_within = measured <= allowed;  // NaN is not
  const bool is_worse = tolerance == 0 || !(measured / allowed <= error / tolerance);
  if (is_worse) {
    where = place;
    error = measured;
    tolerance = allowed;
  }
  passed = passed && is_within;
}

void Finding::Holds(bool condition, const std::string& otherwise) {
  if (condition) return;
  if (reason.empty()) reason = otherwise;
  passed = false;
}

const std::vector<MixerCheck>& MixerChecks() {
  static const std::vector<MixerCheck> checks = {
      {"use", "a token changes its own output", CheckUse},
      {"causality", "a token changes no earlier output", CheckCausality},
      {"poison", "a NaN changes no earlier output and no other sequence", CheckPoison},
      {"prefix", "the outputs of a prefix are the prefix of the outputs", CheckPrefix},
      {"batch", "a sequence does not see the others of its batch", CheckBatch},
      {"layout", "the memory layout of the input does not matter", CheckLayout},
      {"pieces", "pieces with a carried state equal one call, gradients too", CheckPieces},
      {"decoding", "decoding step by step equals one call, the state too", CheckDecoding},
      {"state", "the initial state fixes the layout and size of every later one", CheckState},
      {"gradients", "derivatives agree with central differences", CheckGradients},
      {"repeats", "two runs agree in every bit, on memory filled with NaN", CheckRepeats},
      {"randomness", "a training pass repeats with its seed", CheckRandomness},
      {"weights", "a seed gives the same weights in every precision", CheckWeights},
      {"bf16", "bf16 in, bf16 out, near fp32", CheckBfloat},
  };
  return checks;
}

Finding RunCheck(const MixerCheck& check, const Candidate& candidate) {
  try {
    return check.run(candidate);
  } catch (const std::exception& error) {
    // libtorch's messages, also those that quote another one, go on with the frames of the stack.
    const std::string message = error.what();
    Finding finding;
    finding.Holds(false, message.substr(0, message.find("Exception raised from")));
    return finding;
  }
}

}  // namespace mixerbench::models::checks
