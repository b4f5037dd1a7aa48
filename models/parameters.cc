// SPDX-License-Identifier: Apache-2.0
#include "models/parameters.h"

#include <cmath>
#include <numbers>
#include <ranges>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"
#include "base/philox.h"
#include "base/sha256.h"

namespace mixerbench::models {
namespace {

constexpr std::string_view kSharedPrefix = "shared.";

// Element i of a parameter is a pure function of (key, i): rows added at the end change no other.
class ElementStream {
 public:
  ElementStream(std::uint64_t seed, const std::string& name) {
    const std::string digest = Sha256Hex("init/" + std::to_string(seed) + "/" + name);
    key_.k0 = static_cast<std::uint32_t>(std::stoul(digest.substr(0, 8), nullptr, 16));
    key_.k1 = static_cast<std::uint32_t>(std::stoul(digest.substr(8, 8), nullptr, 16));
  }

  // Two uniforms in [0, 1) for elements 2 pair and 2 pair + 1.
  std::pair<double, double> Uniforms(std::int64_t pair) const {
    const auto index = static_cast<std::uint64_t>(pair);
    const PhiloxBlock bits = Philox4x32(static_cast<std::uint32_t>(index),
                                        static_cast<std::uint32_t>(index >> 32), 0, 0, key_);
    return {UniformFromBits(bits.words[0], bits.words[1]),
            UniformFromBits(bits.words[2], bits.words[3])};
  }

  // Two standard normals (Box-Muller).
  std::pair<double, double> Normals(std::int64_t pair) const {
    const auto [u, v] = Uniforms(pair);
    const double radius = std::sqrt(-2 * std::log1p(-u));  // 1 - u is never 0
    const double angle = 2 * std::numbers::pi * v;
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }

 private:
  PhiloxKey key_;
};

}  // namespace

ParameterSet::ParameterSet(std::uint64_t seed, InitPolicy policy, std::int64_t num_layers,
                           at::Device device, at::ScalarType dtype)
    : seed_(seed), policy_(policy), num_layers_(num_layers), device_(device), dtype_(dtype) {
  Require(num_layers >= 1, "a model has at least one layer");
  Require(at::isFloatingType(dtype), "parameters have a floating dtype");
}

std::int64_t ParameterSet::num_elements() const {
  std::int64_t total = 0;
  for (const Parameter& parameter : parameters_) total += parameter.tensor.numel();
  return total;
}

Init ParameterSet::ApplyPolicy(ParameterRole role, Init init) const {
  constexpr double kStddev = 0.02;
  if (policy_ == InitPolicy::kDefault) return init;
  const bool is_fla = policy_ == InitPolicy::kFla;
  const bool is_normal =
      is_fla || policy_ == InitPolicy::kZoology || policy_ == InitPolicy::kMadReset;
  const auto layers = static_cast<double>(num_layers_);
  switch (role) {
    case ParameterRole::kLinearWeight:
      return is_normal ? Init::Normal(kStddev) : init;
    case ParameterRole::kOwnLinearWeight:
      return is_normal && !is_fla ? Init::Normal(kStddev) : init;
    case ParameterRole::kResidualOutputWeight:
      if (policy_ == InitPolicy::kZoology) return Init::Normal(kStddev / std::sqrt(2 * layers));
      if (policy_ == InitPolicy::kMamba)
        return {init.kind, init.a / std::sqrt(layers), init.b / std::sqrt(layers)};
      return is_normal ? Init::Normal(kStddev) : init;
    case ParameterRole::kLinearBias:
      return Init::Constant(0);
    case ParameterRole::kEmbedding:
      return Init::Normal(kStddev);
    case ParameterRole::kConvWeight:
      return is_fla ? Init::Normal(kStddev) : init;
    case ParameterRole::kConvBias:
      return is_fla ? Init::Constant(0) : init;
    case ParameterRole::kOwnWeight:
    case ParameterRole::kNormWeight:
    case ParameterRole::kNormBias:
    case ParameterRole::kSpecial:
      return init;
  }
  Require(false, "unknown parameter role");
  return init;
}

at::Tensor ParameterSet::Draw(const std::string& name, const std::vector<std::int64_t>& shape,
                              const Init& init, std::int64_t first) const {
  // A model that is only planned has no memory for its weights: one value stands for them all.
  const bool is_planned = device_.is_meta();
  const at::Tensor values =
      at::empty(is_planned ? at::IntArrayRef() : at::IntArrayRef(shape), at::kDouble);
  const ElementStream stream(seed_, name);
  double* const out = values.mutable_data_ptr<double>();
  const std::int64_t end = first + values.numel();
  const auto fill = [&](auto draw_pair) {
    for (std::int64_t i = first - first % 2; i < end; i += 2) {
      const std::pair<double, double> drawn = draw_pair(i / 2);
      if (i >= first) out[i - first] = drawn.first;
      if (i + 1 < end) out[i + 1 - first] = drawn.second;
    }
  };
  switch (init.kind) {
    case Init::Kind::kConstant:
      fill([&](std::int64_t) { return std::pair(init.a, init.a); });
      break;
    case Init::Kind::kUniform:
      fill([&](std::int64_t pair) {
        const auto [u, v] = stream.Uniforms(pair);
        return std::pair(init.a + (init.b - init.a) * u, init.a + (init.b - init.a) * v);
      });
      break;
    case Init::Kind::kNormal:
      fill([&](std::int64_t pair) {
        const auto [u, v] = stream.Normals(pair);
        return std::pair(init.a * u, init.a * v);
      });
      break;
    case Init::Kind::kLogUniform: {
      const double low = std::log(init.a);
      const double range = std::log(init.b) - low;
      fill([&](std::int64_t pair) {
        const auto [u, v] = stream.Uniforms(pair);
        return std::pair(std::exp(low + range * u), std::exp(low + range * v));
      });
      break;
    }
  }
  return is_planned ? values.expand(shape) : values;
}

at::Tensor ParameterSet::Add(const std::string& name, const at::Tensor& values,
                             at::ScalarType dtype, ParameterRole role, bool weight_decay,
                             std::string_view lr_group) {
  for (const Parameter& parameter : parameters_) {
    if (parameter.name == name) Require(false, "parameter " + name + " added twice");
  }
  // A copy even when nothing changes: the caller keeps `values`.
  at::Tensor tensor = values.detach().to(at::TensorOptions(device_).dtype(dtype),
                                         /*non_blocking=*/false, /*copy=*/true);
  tensor.requires_grad_(true);
  parameters_.push_back({name, tensor, role, weight_decay, std::string(lr_group)});
  return tensor;
}

ParameterScope ParameterScope::Child(std::string_view name) const {
  return ParameterScope(*set_, prefix_ + std::string(name) + ".");
}

ParameterScope ParameterScope::Shared() const {
  return ParameterScope(*set_, std::string(kSharedPrefix));
}

std::optional<at::Tensor> ParameterScope::FindShared(const std::string& full_name,
                                                     at::IntArrayRef shape) const {
  if (!full_name.starts_with(kSharedPrefix)) return std::nullopt;
  for (const Parameter& parameter : set_->parameters_) {
    if (parameter.name != full_name) continue;
    Require(parameter.tensor.sizes() == shape, full_name + " is shared by layers of other sizes");
    return parameter.tensor;
  }
  return std::nullopt;
}

at::Tensor ParameterScope::Add(std::string_view name, std::vector<std::int64_t> shape,
                               ParameterRole role, Init init) const {
  Require(role != ParameterRole::kSpecial, "use AddSpecial");
  const std::string full_name = prefix_ + std::string(name);
  if (auto shared = FindShared(full_name, shape)) return *std::move(shared);
  const Init chosen = set_->ApplyPolicy(role, init);
  return set_->Add(full_name, set_->Draw(full_name, shape, chosen), set_->dtype_, role,
                   /*weight_decay=*/true);
}

at::Tensor ParameterScope::AddRows(std::string_view name, const std::vector<RowBlock>& blocks,
                                   std::int64_t num_columns, ParameterRole role) const {
  Require(role != ParameterRole::kSpecial, "use AddSpecial");
  const std::string full_name = prefix_ + std::string(name);
  std::int64_t num_rows = 0;
  for (const RowBlock& block : blocks) num_rows += block.num_rows;
  if (auto shared = FindShared(full_name, {num_rows, num_columns})) return *std::move(shared);
  const auto add = [&](const at::Tensor& values) {
    return set_->Add(full_name, values, set_->dtype_, role, /*weight_decay=*/true);
  };
  // Where a model is only planned one value stands for all, and joining blocks would take memory.
  if (set_->device_.is_meta()) {
    return add(set_->Draw(full_name, {num_rows, num_columns}, blocks.front().init));
  }
  std::vector<at::Tensor> drawn;
  std::int64_t first = 0;
  for (const RowBlock& block : blocks) {
    drawn.push_back(set_->Draw(full_name, {block.num_rows, num_columns},
                               set_->ApplyPolicy(role, block.init), first));
    first += drawn.back().numel();
  }
  return add(at::cat(drawn));
}

std::shared_ptr<const at::Tensor> ParameterScope::Shadow(std::string_view name) const {
  const std::string full_name = prefix_ + std::string(name);
  for (Parameter& parameter : std::views::reverse(set_->parameters_)) {  // one of the last
    if (parameter.name != full_name) continue;
    if (parameter.narrow == nullptr) parameter.narrow = std::make_shared<at::Tensor>();
    return parameter.narrow;
  }
  Require(false, "no parameter " + full_name);
  return nullptr;
}

at::Tensor ParameterScope::Draw(std::string_view name, std::vector<std::int64_t> shape,
                                Init init) const {
  return set_->Draw(prefix_ + std::string(name), shape, init);
}

at::Tensor ParameterScope::AddSpecial(std::string_view name, std::vector<std::int64_t> shape,
                                      Init init, std::string_view lr_group) const {
  return AddSpecial(name, Draw(name, std::move(shape), init), lr_group);
}

at::Tensor ParameterScope::AddFlaggedBias(std::string_view name, const at::Tensor& values) const {
  const bool is_reset = set_->policy_ == InitPolicy::kMadReset;
  return AddSpecial(name, is_reset ? at::zeros_like(values) : values);
}

at::TensorOptions ParameterScope::special_options() const {
  return at::TensorOptions(set_->device_).dtype(c10::promoteTypes(set_->dtype_, at::kFloat));
}

at::Tensor ParameterScope::AddSpecial(std::string_view name, const at::Tensor& values,
                                      std::string_view lr_group) const {
  const std::string full_name = prefix_ + std::string(name);
  if (auto shared = FindShared(full_name, values.sizes())) return *std::move(shared);
  return set_->Add(full_name, values, special_options().dtype().toScalarType(),
                   ParameterRole::kSpecial,
                   /*weight_decay=*/false, lr_group);
}

}  // namespace mixerbench::models
