// What the layers S4, S4D, S5, H3 and LRU share around their recurrence: complex parameters, time
// steps, and the skip, GELU and gated projection after it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "models/blocks/linear.h"
#include "models/mixer.h"
#include "models/parameters.h"

namespace mixerbench::models {

// A parameter of the state itself (rates, time steps, input matrices): in the group of learning
// rates "ssm", which has no weight decay where it has a rate of its own. `values` as they are
// stored.
at::Tensor AddSsmParameter(const ParameterScope& scope, std::string_view name,
                           const at::Tensor& values);

// Complex values [...] on the CPU as the pairs [...,2] that are stored, and the stored pairs as
// complex128 [...].
at::Tensor ToPairs(const at::Tensor& values);
at::Tensor FromPairs(const at::Tensor& parameter);

// Standard normal in the complex plane: parts N(0, 1/2). A parameter [...,2] in the normal group.
at::Tensor AddComplexNormal(const ParameterScope& scope, std::string_view name,
                            std::vector<std::int64_t> shape);

// A complex matrix with these values as pairs, in the normal group too.
at::Tensor AddComplex(const ParameterScope& scope, std::string_view name, const at::Tensor& values);

enum class StepTransform {
  kExp,       // log of the step is stored
  kSoftplus,  // log(exp(step) - 1) is stored
};

struct TimeStepConfig {
  double min = 1e-3;
  double max = 1e-1;
  StepTransform transform = StepTransform::kExp;
};

// Steps in continuous time, drawn log-uniformly from [min,max].
class TimeSteps {
 public:
  // What the parameter of that name starts as, [count,1] float64 on the CPU.
  static at::Tensor Draw(const ParameterScope& scope, std::string_view name, std::int64_t count,
                         const TimeStepConfig& config);

  TimeSteps(const ParameterScope& scope, std::string_view name, std::int64_t count,
            const TimeStepConfig& config);
  // [count,1] float64.
  at::Tensor operator()() const;

 private:
  at::Tensor stored_;
  StepTransform transform_;
};

// Throws ConfigError unless 0 < dt_min <= dt_max.
void CheckSteps(double dt_min, double dt_max, const std::string& where);

// y + D u -> dropout -> GELU -> dropout -> the gated projection a * sigmoid(b), [a, b] = W x + c.
class StateSpaceOutput {
 public:
  struct Config {
    double dropout = 0;
    bool tie_dropout = true;  // one mask for all tokens of a sequence
  };

  // Parameters `D` and, unless whoever holds the mixer projects, `output_linear`.
  StateSpaceOutput(const Config& config, const MixerContext& context, const ParameterScope& scope);

  // The first of two steps, for Mix: y [B,T,D] in the computing dtype, u the layer's input.
  std::vector<TokenTensor> Tokens(const at::Tensor& y, const at::Tensor& u,
                                  const MixerOptions& options) const;
  // The second, for Output.
  at::Tensor operator()(const Mixed& mixed, const MixerOptions& options) const;

 private:
  Config config_;
  at::Tensor skip_;
  std::optional<Linear> output_linear_;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::StepTransform> {
  using E = mixerbench::models::StepTransform;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kExp, "exp"},
                                                              {E::kSoftplus, "softplus"}};
};
