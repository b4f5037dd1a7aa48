// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/parity.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <string_view>

#include <ATen/TensorOperators.h>

#include "base/check.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::harness {
namespace {

// Of all sequences.
constexpr std::int64_t kMaxTokensOnGpu = 16384;
constexpr std::int64_t kMaxTokensOnCpu = 1024;
// On the CPU float64 goes token by token: its backward pass reads about so many tensors of the size
// of a state, for every token.
constexpr std::int64_t kStatesPerToken = 6;
constexpr std::int64_t kMaxBytesOnCpu = std::int64_t{1} << 30;

// Of few numbers an error is a matter of luck: more is allowed, so that this share of all
// quantities fails by luck alone, but never what a missing gradient is off by.
constexpr double kFalseAlarms = 1e-3;
constexpr double kMostByLuck = 0.5;

// Device code rounds the operands of a core's products; the naive core computes in fp32. fp32: sums
// of some thousand terms in another order.
double RoundingOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
      return 2e-5;
    case Dtype::kTf32:
      return std::ldexp(1.0, -11);
    case Dtype::kBf16:
      return std::ldexp(1.0, -8);
  }
  Require(false, "unknown dtype");
  return 0;
}

bool IsGradient(const std::string& name) { return name.starts_with("d "); }

double Norm(const at::Tensor& x) { return x.to(at::kDouble).norm().item<double>(); }

// Root mean square of all gradients.
double GradientScale(const Quantities& exact) {
  double squares = 0;
  double elements = 0;
  for (const auto& [name, value] : exact) {
    if (!IsGradient(name)) continue;
    squares += std::pow(Norm(value), 2);
    elements += static_cast<double>(value.numel());
  }
  return elements > 0 ? std::sqrt(squares / elements) : 0;
}

// Of one quantity: how far it is off, and of how many independent parts that error is the sum.
struct QuantityError {
  double relative = 0;
  double participants = 0;
};

// How many elements make up an error: (sum of e^2)^2 / sum of e^4; all when there is none.
// Gradients of batches whose tokens repeat have few directions, however large they are.
double NumElements(const at::Tensor& error) {
  const at::Tensor squares = error.square();
  const double sum = squares.sum().item<double>();
  const double fourths = squares.square().sum().item<double>();
  return fourths > 0 ? sum * sum / fourths : static_cast<double>(error.numel());
}

// How many tokens make up the error E [M,N] of a weight's gradient, a sum of outer products. Of K
// independent ones |E E^T|^2 / |E|^4 is about 1/K + 1/M + 1/N.
double NumTokens(const at::Tensor& error) {
  const double squares = error.square().sum().item<double>();
  if (!(squares > 0)) return std::numeric_limits<double>::infinity();
  const double overlap = error.mm(error.t()).square().sum().item<double>() / (squares * squares);
  const double of_any =
      1 / static_cast<double>(error.size(0)) + 1 / static_cast<double>(error.size(1));
  return overlap > of_any ? 1 / (overlap - of_any) : std::numeric_limits<double>::infinity();
}

// "d layers.1." of "d layers.1.mixer.in_proj.weight"; empty outside of layers.
std::string LayerOf(const std::string& name) {
  constexpr std::string_view kLayers = "d layers.";
  if (!name.starts_with(kLayers)) return {};
  return name.substr(0, name.find('.', kLayers.size()) + 1);
}

// The vectors of a layer (norms, biases) get their gradients from the tokens that its matrices get
// theirs from, and do not show how many these are: the largest matrix does.
void CountTokensOfLayers(const Quantities& exact, std::vector<QuantityError>& errors,
                         const std::vector<double>& num_tokens) {
  std::map<std::string, std::size_t> largest;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const std::string layer = LayerOf(exact[i].first);
    if (layer.empty() || exact[i].second.dim() != 2) continue;
    const auto [place, is_new] = largest.try_emplace(layer, i);
    if (!is_new && exact[i].second.numel() > exact[place->second].second.numel()) place->second = i;
  }
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto found = largest.find(LayerOf(exact[i].first));
    const bool is_matrix = exact[i].second.dim() == 2;
    if (!is_matrix && found == largest.end()) continue;
    const double tokens = num_tokens[is_matrix ? i : found->second];
    errors[i].participants = std::min(errors[i].participants, std::max(tokens, 1.0));
  }
}

// Relative errors, in the order of `exact`. A gradient that is zero but for rounding (that of the
// bias of keys, say) is held against a hundredth of what gradients are in general.
std::vector<QuantityError> Errors(const Quantities& actual, const Quantities& exact) {
  Require(actual.size() == exact.size(), "the same quantities are compared");
  const double scale = GradientScale(exact);
  std::vector<QuantityError> errors;
  std::vector<double> num_tokens;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto& [name, value] = exact[i];
    Require(actual[i].first == name && actual[i].second.sizes() == value.sizes(),
            "the same quantities are compared");
    const double least =
        IsGradient(name) ? 0.01 * scale * std::sqrt(static_cast<double>(value.numel())) : 0;
    const at::Tensor error = actual[i].second.to(at::kDouble) - value.to(at::kDouble);
    const double norm = Norm(error);  // 0 of what is zero on both sides, such as a state not begun
    errors.push_back({.relative = norm == 0 ? 0 : norm / std::max(Norm(value), least),
                      .participants = NumElements(error)});
    const bool is_weight = IsGradient(name) && value.dim() == 2;
    num_tokens.push_back(is_weight ? NumTokens(error) : std::numeric_limits<double>::infinity());
  }
  CountTokensOfLayers(exact, errors, num_tokens);
  return errors;
}

double MedianError(std::vector<QuantityError> errors) {
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end(),
                   [](const auto& a, const auto& b) { return a.relative < b.relative; });
  return middle->relative;
}

}  // namespace

ParitySample ChooseParitySample(std::int64_t batch_size, std::int64_t seq_len,
                                std::int64_t state_elements, at::Device device) {
  const std::int64_t bytes_per_token = kStatesPerToken * static_cast<std::int64_t>(sizeof(double)) *
                                       std::max<std::int64_t>(state_elements, 1);
  const std::int64_t tokens =
      device.is_cuda()
          ? kMaxTokensOnGpu
          : std::clamp<std::int64_t>(kMaxBytesOnCpu / bytes_per_token, 1, kMaxTokensOnCpu);
  ParitySample sample;
  sample.num_tokens = std::min(seq_len, tokens);
  sample.num_sequences = std::clamp<std::int64_t>(tokens / sample.num_tokens, 1, batch_size);
  return sample;
}

reports::Parity Compare(const Quantities& timed, const std::vector<Quantities>& naive,
                        const Quantities& exact, Dtype dtype) {
  const std::vector<QuantityError> errors = Errors(timed, exact);
  std::vector<QuantityError> naive_errors(exact.size());
  for (const Quantities& run : naive) {
    const std::vector<QuantityError> run_errors = Errors(run, exact);
    for (std::size_t i = 0; i < run_errors.size(); ++i) {
      if (run_errors[i].relative >= naive_errors[i].relative) naive_errors[i] = run_errors[i];
    }
  }
  // For the same reason the usual error of all quantities is allowed to each.
  const double usual = MedianError(naive_errors);
  reports::Parity worst;
  double worst_ratio = -1;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double luck = reports::ErrorRatioQuantile(
        static_cast<std::int64_t>(naive_errors[i].participants), kFalseAlarms);
    const double allowed = 2 * std::max(naive_errors[i].relative, usual);
    const double tolerance =
        std::max(allowed, std::min(luck * allowed, kMostByLuck)) + RoundingOf(dtype);
    const double ratio = errors[i].relative / tolerance;
    if (ratio <= worst_ratio) continue;  // not so for NaN
    worst.quantity = exact[i].first;
    worst.error = errors[i].relative;
    worst.tolerance = tolerance;
    if (!std::isfinite(ratio)) break;
    worst_ratio = ratio;
  }
  return worst;
}

bool Holds(const reports::Parity& parity) { return parity.error <= parity.tolerance; }

}  // namespace mixerbench::harness
