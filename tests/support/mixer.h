// A mixer and its parameters, as the tests of one mixer make them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/value.h"
#include "models/mixer.h"
#include "models/parameters.h"

namespace mixerbench::testing {

using RegisterMixers = std::function<void(models::MixerRegistry&)>;

// The mixer of these options at "/mixer", found among those that `registration` adds; where that is
// one, `config` needs no name. context.registry is filled in.
std::unique_ptr<models::Mixer> MakeMixer(const RegisterMixers& registration, Object config,
                                         models::MixerContext context,
                                         const models::ParameterScope& scope);

// None yet: seed 1, initialised by what each block asks for, float64 on the CPU.
models::ParameterSet NewParameters(std::int64_t num_layers = 1);

// The parameter itself. Errors: std::logic_error where there is none of this name.
at::Tensor FindParameter(const models::ParameterSet& parameters, std::string_view name);

// A mixer with the parameters that it took: seed 1, two layers, on the CPU.
struct MadeMixer {
  MadeMixer(const RegisterMixers& registration, Object config, const models::MixerContext& context,
            models::InitPolicy policy = models::InitPolicy::kZoology,
            at::ScalarType dtype = at::kDouble);

  // FindParameter without its history: writes reach the mixer.
  at::Tensor operator[](std::string_view name) const;

  models::ParameterSet parameters;
  std::unique_ptr<models::Mixer> mixer;
};

// sin(0.7 (i + 1) + 1.3 seed) / 2 for element i, in float64: values that a program in another
// language forms as easily.
at::Tensor Sines(at::IntArrayRef sizes, std::size_t seed);

// Sines for every parameter, its seed the place of its name in `names`. Errors: std::logic_error
// unless `names` are those of all parameters.
void FillParameters(const models::ParameterSet& parameters, const std::vector<std::string>& names);

}  // namespace mixerbench::testing
