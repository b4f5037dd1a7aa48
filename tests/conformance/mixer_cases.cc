// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/mixer_cases.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"
#include "tests/support/tensors.h"

namespace mixerbench::conformance {
namespace {

using models::ExecutionPath;

constexpr std::uint64_t kSeed = 7;
constexpr std::uint64_t kWeightSeed = 100;
constexpr std::uint64_t kValueSeed = 200;

at::Tensor Weighted(const at::Tensor& value, std::uint64_t seed) {
  return (value.to(at::kDouble) * testing::RandomNormal(value.sizes(), seed)).sum();
}

std::unique_ptr<models::Mixer> Create(const Value& config, std::int64_t layer_index,
                                      const std::set<std::string>& offered,
                                      models::ParameterSet& parameters) {
  return models::CreateMixer(config, "",
                             {.d_model = kModelDim,
                              .layer_index = layer_index,
                              .num_layers = 2,
                              .max_seq_len = kMaxSeqLen,
                              .registry = &Mixers(),
                              .offered = offered},
                             models::ParameterScope(parameters));
}

models::ParameterSet NewParameters(at::ScalarType dtype) {
  return {kSeed, models::InitPolicy::kDefault, /*num_layers=*/2, at::kCPU, dtype};
}

// What a layer may read, by name with the shape of an entry: of the backbone and, in layer 1, of
// the same mixer in layer 0.
std::map<std::string, std::vector<std::int64_t>> Offered(const Value& config,
                                                         std::int64_t layer_index) {
  std::map<std::string, std::vector<std::int64_t>> shapes = {{"embeddings", {kModelDim}}};
  if (layer_index == 0) return shapes;
  shapes["previous_output"] = {kModelDim};
  const at::NoGradGuard no_grad;
  models::ParameterSet parameters = NewParameters(at::kDouble);
  const auto earlier = Create(config, 0, {"embeddings"}, parameters);
  if (earlier->traits().offers.empty()) return shapes;
  const at::Tensor x = testing::RandomNormal({1, 1, kModelDim}, 1);
  for (const auto& [name, value] :
       models::Forward(*earlier, {.x = x, .values = {{"embeddings", x}}}).offers) {
    shapes[name] = value.sizes().slice(2).vec();
  }
  return shapes;
}

std::set<std::string> NamesOf(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  std::set<std::string> names;
  for (const auto& [name, shape] : shapes) names.insert(name);
  return names;
}

std::set<std::string> ReadsOf(const Value& config, std::int64_t layer_index) {
  models::ParameterSet parameters = NewParameters(at::kFloat);
  return Create(config, layer_index, NamesOf(Offered(config, layer_index)), parameters)
      ->traits()
      .reads;
}

bool IsAskedFor(const std::string& mixer) {
  const char* const asked = std::getenv("MIXERBENCH_MIXERS");
  if (asked == nullptr) return true;
  std::istringstream names(asked);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == mixer) return true;
  }
  return false;
}

double Norm(const at::Tensor& x) { return x.to(at::kDouble).norm().item<double>(); }

}  // namespace

const models::MixerRegistry& Mixers() {
  static const auto registry = [] {
    models::MixerRegistry built("mixer");
    models::RegisterMixers(built);
    return built;
  }();
  return registry;
}

MixerCase CaseOf(Object config) {
  const std::string name = config.at("name").as_string();
  return {name, Value(std::move(config))};
}

std::vector<MixerCase> MixerCases() {
  std::vector<MixerCase> cases;
  for (const auto& [name, entry] : Mixers().entries()) {
    if (!IsAskedFor(name)) continue;
    std::vector<Value> configs = {Object{}};
    configs.insert(configs.end(), entry.test_configs.begin(), entry.test_configs.end());
    for (std::size_t i = 0; i < configs.size(); ++i) {
      configs[i].as_object()["name"] = name;
      const std::string label = name + "[" + std::to_string(i) + "]";
      cases.push_back({label, configs[i]});
      if (ReadsOf(configs[i], 1) != ReadsOf(configs[i], 0)) {
        cases.push_back({label + " in layer 1", configs[i], 1});
      }
    }
  }
  return cases;
}

TestMixer::TestMixer(const MixerCase& mixer_case, at::ScalarType dtype)
    : parameters_(std::make_unique<models::ParameterSet>(NewParameters(dtype))),
      value_shapes_(Offered(mixer_case.config, mixer_case.layer_index)) {
  mixer_ = Create(mixer_case.config, mixer_case.layer_index, NamesOf(value_shapes_), *parameters_);
}

models::MixerInputs TestMixer::InputsOf(const at::Tensor& x) const {
  models::MixerInputs inputs{.x = x};
  std::uint64_t seed = kValueSeed;
  for (const std::string& name : mixer_->traits().reads) {
    const std::vector<std::int64_t>& shape = value_shapes_.at(name);
    const std::int64_t width =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    const at::Tensor map = testing::RandomNormal({kModelDim, width}, ++seed, x.scalar_type()) / 4;
    std::vector<std::int64_t> sizes = {x.size(0), x.size(1)};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    inputs.values[name] = x.matmul(map).view(sizes);
  }
  return inputs;
}

at::Tensor TestMixer::Run(const at::Tensor& x, ExecutionPath path) const {
  const at::NoGradGuard no_grad;
  return models::Forward(*mixer_, InputsOf(x), {.path = path}).y;
}

Results Differentiate(const TestMixer& model, const at::Tensor& x,
                      const std::vector<std::int64_t>& piece_lengths, ExecutionPath path) {
  const at::Tensor leaf = x.detach().requires_grad_(true);
  models::State state;
  std::vector<at::Tensor> outputs;
  std::int64_t start = 0;
  for (const std::int64_t length : piece_lengths) {
    models::MixerResult output = models::Forward(
        model.mixer(), model.InputsOf(leaf.narrow(1, start, length)),
        {.path = path, .initial_state = start > 0 ? &state : nullptr, .want_final_state = true});
    outputs.push_back(output.y);
    state = std::move(output.final_state);
    start += length;
  }
  Require(start == x.size(1), "the pieces make up the sequence");

  Results results;
  const at::Tensor y = at::cat(outputs, 1);
  at::Tensor sum = Weighted(y, kWeightSeed);
  results["y"] = y.detach();
  std::uint64_t seed = kWeightSeed;
  models::ForEach(std::as_const(state),
                  [&](const std::string& path_of_tensor, const models::StateTensor& tensor) {
                    if (tensor.kind == models::StateKind::kPosition) return;
                    const at::Tensor value =
                        tensor.value.is_complex() ? at::view_as_real(tensor.value) : tensor.value;
                    sum = sum + Weighted(value, ++seed);
                    results["final_state." + path_of_tensor] = value.detach();
                  });
  sum.backward();
  results["dx"] = leaf.grad();
  for (const models::Parameter& parameter : model.parameters()) {
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
    const at::Tensor& other = actual.at(name);
    double error = std::numeric_limits<double>::infinity();
    if (other.sizes() == value.sizes()) {
      error = Norm(other.to(at::kDouble) - value.to(at::kDouble)) /
              std::max({Norm(value), 1e-3 * largest, std::numeric_limits<double>::min()});
    }
    if (!(error <= worst.error)) worst = {name, error};  // NaN is worse than anything
  }
  return worst;
}

}  // namespace mixerbench::conformance
