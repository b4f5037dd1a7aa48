// SPDX-License-Identifier: Apache-2.0
#include "models/checks/subject.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"
#include "models/checks/tensors.h"

namespace mixerbench::models::checks {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr std::uint64_t kWeightSeed = 100;
constexpr std::uint64_t kValueSeed = 200;

at::Tensor Weighted(const at::Tensor& value, std::uint64_t seed) {
  const at::Tensor weights = RandomNormal(value.sizes(), seed, at::kDouble, value.device());
  return (value.to(at::kDouble) * weights).sum();
}

ParameterSet NewParameters(const SubjectSpec& spec, at::ScalarType dtype) {
  return {kSeed, InitPolicy::kDefault, spec.context.num_layers, spec.device, dtype};
}

std::unique_ptr<Mixer> Create(const SubjectSpec& spec, std::int64_t layer_index,
                              const std::set<std::string>& offered, ParameterSet& parameters) {
  MixerContext context = spec.context;
  context.layer_index = layer_index;
  context.offered = offered;
  return CreateMixer(spec.config, spec.where, context, ParameterScope(parameters));
}

// What a layer may read, by name with the shape of an entry: of the backbone and, in later layers,
// of the same mixer in layer 0.
std::map<std::string, std::vector<std::int64_t>> Offered(const SubjectSpec& spec) {
  const std::int64_t d_model = spec.context.d_model;
  std::map<std::string, std::vector<std::int64_t>> shapes = {{"embeddings", {d_model}}};
  if (spec.context.layer_index == 0) return shapes;
  shapes["previous_output"] = {d_model};
  const at::NoGradGuard no_grad;
  ParameterSet parameters = NewParameters(spec, at::kFloat);
  const auto earlier = Create(spec, 0, {"embeddings"}, parameters);
  if (earlier->traits().offers.empty()) return shapes;
  const at::Tensor x = RandomNormal({1, 1, d_model}, 1, at::kFloat, spec.device);
  for (const auto& [name, value] :
       Forward(*earlier, {.x = x, .values = {{"embeddings", x}}}).offers) {
    shapes[name] = value.sizes().slice(2).vec();
  }
  return shapes;
}

std::set<std::string> NamesOf(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  std::set<std::string> names;
  for (const auto& [name, shape] : shapes) names.insert(name);
  return names;
}

double Norm(const at::Tensor& x) { return x.to(at::kDouble).norm().item<double>(); }

}  // namespace

Subject::Subject(const SubjectSpec& spec, at::ScalarType dtype)
    : spec_(spec),
      parameters_(std::make_unique<ParameterSet>(NewParameters(spec, dtype))),
      value_shapes_(Offered(spec)) {
  mixer_ = Create(spec_, spec_.context.layer_index, NamesOf(value_shapes_), *parameters_);
}

at::Tensor Subject::Draw(std::int64_t batch_size, std::int64_t seq_len, std::uint64_t seed,
                         at::ScalarType dtype) const {
  return RandomNormal({batch_size, seq_len, d_model()}, seed, dtype, spec_.device);
}

MixerInputs Subject::InputsOf(const at::Tensor& x) const {
  MixerInputs inputs{.x = x};
  std::uint64_t seed = kValueSeed;
  for (const std::string& name : mixer_->traits().reads) {
    const std::vector<std::int64_t>& shape = value_shapes_.at(name);
    const std::int64_t width =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    const at::Tensor map =
        RandomNormal({d_model(), width}, ++seed, x.scalar_type(), x.device()) / 4;
    std::vector<std::int64_t> sizes = {x.size(0), x.size(1)};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    inputs.values[name] = x.matmul(map).view(sizes);
  }
  return inputs;
}

at::Tensor Subject::Run(const at::Tensor& x, ExecutionPath path) const {
  const at::NoGradGuard no_grad;
  return Forward(*mixer_, InputsOf(x), {.path = path}).y;
}

namespace {

// y of all pieces and the state behind the last.
std::pair<at::Tensor, State> RunInPieces(const Subject& model, const at::Tensor& x,
                                         const std::vector<std::int64_t>& piece_lengths,
                                         ExecutionPath path) {
  State state;
  std::vector<at::Tensor> outputs;
  std::int64_t start = 0;
  for (const std::int64_t length : piece_lengths) {
    MixerResult output = Forward(
        model.mixer(), model.InputsOf(x.narrow(1, start, length)),
        {.path = path, .initial_state = start > 0 ? &state : nullptr, .want_final_state = true});
    outputs.push_back(output.y);
    state = std::move(output.final_state);
    start += length;
  }
  Require(start == x.size(1), "the pieces make up the sequence");
  return {at::cat(outputs, 1), std::move(state)};
}

}  // namespace

Results Differentiate(const Subject& model, const at::Tensor& x,
                      const std::vector<std::int64_t>& piece_lengths, ExecutionPath path) {
  const at::Tensor leaf = x.detach().requires_grad_(true);
  const auto [y, state] = RunInPieces(model, leaf, piece_lengths, path);
  Results results;
  results["y"] = y.detach();
  at::Tensor sum = Weighted(y, kWeightSeed);
  std::uint64_t seed = kWeightSeed;
  ForEach(state, [&](const std::string& path_of_tensor, const StateTensor& tensor) {
    if (tensor.kind == StateKind::kPosition) return;
    const at::Tensor value =
        tensor.value.is_complex() ? at::view_as_real(tensor.value) : tensor.value;
    sum = sum + Weighted(value, ++seed);
    results["final_state." + path_of_tensor] = value.detach();
  });
  model.Backward(sum);
  results["dx"] = leaf.grad().defined() ? leaf.grad() : at::zeros_like(x);
  for (const Parameter& parameter : model.parameters()) {
    at::Tensor tensor = parameter.tensor;
    results["d" + parameter.name] =
        tensor.grad().defined() ? tensor.grad().clone() : at::zeros_like(tensor).detach();
    tensor.mutable_grad().reset();
  }
  return results;
}

Worst WorstError(const Results& actual, const Results& expected, const std::string& prefix) {
  double largest = 0;
  for (const auto& [name, value] : expected) {
    if (name.starts_with(prefix)) largest = std::max(largest, Norm(value));
  }
  Worst worst;
  for (const auto& [name, value] : expected) {
    if (!name.starts_with(prefix) || value.numel() == 0) continue;
    const auto other = actual.find(name);
    double error = std::numeric_limits<double>::infinity();
    if (other != actual.end() && other->second.sizes() == value.sizes()) {
      error = Norm(other->second.to(at::kDouble) - value.to(at::kDouble)) /
              std::max({Norm(value), 1e-3 * largest, std::numeric_limits<double>::min()});
    }
    if (!(error <= worst.error)) worst = {name, error};  // NaN is worse than anything
  }
  return worst;
}

}  // namespace mixerbench::models::checks
