// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/s5/s5.h"

#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/real.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "models/blocks/config_checks.h"
#include "models/blocks/dropout.h"
#include "models/blocks/dtype.h"
#include "models/blocks/hippo.h"
#include "models/blocks/mimo_system.h"
#include "models/blocks/state_space.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::s5 {
namespace {

constexpr char kState[] = "state";
constexpr double kSlowest = 1e-4;

const Fields<S5Config>& ConfigFields() {
  static const auto fields =
      Fields<S5Config>()
          .Add("d_state", &S5Config::d_state,
               "order of the system; with conj_sym it has half as many complex modes")
          .Add("blocks", &S5Config::blocks, "HiPPO blocks on the diagonal at the start")
          .Add("conj_sym", &S5Config::conj_sym, "keep one of each pair of conjugate modes")
          .Add("clip_eigs", &S5Config::clip_eigs, "real parts of the rates are at most -1e-4")
          .Add("c_init", &S5Config::c_init, "how the output matrix starts")
          .Add("discretization", &S5Config::discretization, "from rates to factors per token")
          .Add("dt_min", &S5Config::dt_min, "shortest time step at the start")
          .Add("dt_max", &S5Config::dt_max, "longest time step at the start")
          .Add("step_rescale", &S5Config::step_rescale, "multiplies every time step")
          .Add("activation", &S5Config::activation, "after the system")
          .Add("dropout", &S5Config::dropout, "after the activation");
  return fields;
}

// JAX's lecun_normal with this fan_in: a normal cut at two standard deviations, of variance
// 1/fan_in.
at::Tensor DrawLecunNormal(const ParameterScope& scope, std::string_view name,
                           std::vector<std::int64_t> shape, std::int64_t fan_in) {
  const double edge = std::erf(std::numbers::sqrt2);  // of two standard deviations
  const at::Tensor uniform = scope.Draw(name, std::move(shape), Init::Uniform(-edge, edge));
  constexpr double kDeviationOfCut = 0.87962566103423978;
  return at::erfinv(uniform) *
         (std::numbers::sqrt2 / kDeviationOfCut / std::sqrt(static_cast<double>(fan_in)));
}

// Modes of one HiPPO block and the columns that they have among its eigenvectors.
struct Block {
  at::Tensor rate;  // [m]
  at::Tensor v;     // [block size,m]
};

Block MakeBlock(std::int64_t size, bool conj_sym) {
  const NormalPlusLowRank legs = Diagonalize(HippoMeasure::kLegs, size);
  const at::Tensor rate = at::complex(at::full_like(legs.omega, legs.decay), legs.omega);
  if (conj_sym) return {rate, legs.v};
  return {at::cat({rate, rate.conj()}), at::cat({legs.v, legs.v.conj()}, 1)};
}

class S5 final : public Mixer {
 public:
  S5(const S5Config& config, const MixerContext& context, const ParameterScope& scope)
      : config_(config),
        steps_(scope, "log_step", NumModes(config), {config.dt_min, config.dt_max}) {
    const std::int64_t width = context.d_model;
    const std::int64_t block_size = config.d_state / config.blocks;
    const Block block = MakeBlock(block_size, config.conj_sym);
    const at::Tensor rate = block.rate.repeat({config.blocks});
    rate_re_ = AddSsmParameter(scope, "Lambda_re", at::real(rate));
    rate_im_ = AddSsmParameter(scope, "Lambda_im", at::imag(rate));
    const at::Tensor b = DrawLecunNormal(scope, "B", {config.d_state, width}, config.d_state)
                             .view({config.blocks, block_size, width});
    input_ = AddSsmParameter(
        scope, "B",
        ToPairs(at::matmul(block.v.conj().t(), b.to(at::kComplexDouble)).flatten(0, 1)));
    output_ = AddOutput(scope, block.v, width);
    skip_ = scope.Add("D", {width}, ParameterRole::kOwnWeight, Init::Normal(1));
    const auto add = [&](std::optional<Linear>& linear, std::string_view name) {
      linear.emplace(scope.Child(name), width, width, /*bias=*/true);
    };
    const S5Activation activation = config.activation;
    if (activation == S5Activation::kFullGlu) add(out1_, "out1");
    if (activation == S5Activation::kFullGlu || activation == S5Activation::kHalfGlu1 ||
        activation == S5Activation::kHalfGlu2) {
      add(out2_, "out2");
    }
  }

  State InitialState(std::int64_t batch_size) const override {
    const auto dtype = c10::toComplexType(AtLeastFloat(input_).scalar_type());
    return StateOf(at::zeros({batch_size, NumModes(config_)},
                             input_.options().dtype(dtype).requires_grad(false)));
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const at::Tensor u = AtLeastFloat(inputs.x);
    const MimoResult result =
        RunMimo(System(), u, Find(options.initial_state, kState), options.path);
    Mixed mixed;
    mixed.tokens = {{(result.y + u * skip_.to(u.scalar_type())).to(inputs.x.scalar_type())}};
    if (options.want_final_state) mixed.final_state = StateOf(result.final_state);
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    return Dropout(Activate(mixed.tokens[0].value, options.path), config_.dropout,
                   options.generator);
  }

 private:
  static std::int64_t NumModes(const S5Config& config) {
    return config.conj_sym ? config.d_state / 2 : config.d_state;
  }

  static State StateOf(const at::Tensor& state) { return {.tensors = {{kState, {state}}}}; }

  at::Tensor AddOutput(const ParameterScope& scope, const at::Tensor& v, std::int64_t width) const {
    if (config_.c_init == S5OutputInit::kComplexNormal) {
      return AddComplexNormal(scope, "C", {width, NumModes(config_)});
    }
    const std::int64_t fan_in =
        config_.c_init == S5OutputInit::kLecunNormal ? config_.d_state * width : config_.d_state;
    const auto parts = DrawLecunNormal(scope, "C", {width, config_.d_state, 2}, fan_in).unbind(-1);
    const at::Tensor c = at::complex(parts[0].contiguous(), parts[1].contiguous())
                             .view({width, config_.blocks, v.size(0)});
    return AddComplex(scope, "C", at::matmul(c, v).flatten(1));
  }

  MimoSystem System() const {
    at::Tensor decay = rate_re_.to(at::kDouble);
    if (config_.clip_eigs) decay = decay.clamp_max(-kSlowest);
    const at::Tensor rate = at::complex(decay, rate_im_.to(at::kDouble)).unsqueeze(-1);
    // One input at a time is what Discretize scales: the factor of every row of B.
    const DiagonalSystem scaled = Discretize(
        rate, at::full_like(rate, 1), {}, steps_() * config_.step_rescale, config_.discretization);
    const at::Tensor output = FromPairs(output_);
    return {scaled.log_step.squeeze(-1), scaled.input * FromPairs(input_),
            config_.conj_sym ? output * 2 : output};
  }

  at::Tensor Activate(const at::Tensor& y, ExecutionPath path) const {
    switch (config_.activation) {
      case S5Activation::kHalfGlu1: {
        const at::Tensor x = at::gelu(y);
        return x * at::sigmoid((*out2_)(x, path));
      }
      case S5Activation::kHalfGlu2:
        return y * at::sigmoid((*out2_)(at::gelu(y), path));
      case S5Activation::kFullGlu: {
        const at::Tensor x = at::gelu(y);
        return (*out1_)(x, path) * at::sigmoid((*out2_)(x, path));
      }
      case S5Activation::kGelu:
        return at::gelu(y);
      case S5Activation::kSilu:
        return at::silu(y);
      case S5Activation::kNone:
        break;
    }
    return y;
  }

  S5Config config_;
  TimeSteps steps_;
  at::Tensor rate_re_;  // [P]
  at::Tensor rate_im_;  // [P]
  at::Tensor input_;    // pairs [P,D,2]
  at::Tensor output_;   // pairs [D,P,2]
  at::Tensor skip_;     // [D]
  std::optional<Linear> out1_;
  std::optional<Linear> out2_;
};

std::unique_ptr<Mixer> Make(const S5Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.d_state, 2, 1 << 16, where, "d_state");
  const std::int64_t block_size =
      DivideExactly(config.d_state, config.blocks, where, "blocks", "d_state");
  if (block_size % 2 != 0) {
    throw ConfigError(where + "/blocks", "d_state " + std::to_string(config.d_state) + " in " +
                                             std::to_string(config.blocks) +
                                             " blocks gives blocks of odd size");
  }
  CheckSteps(config.dt_min, config.dt_max, where);
  CheckPositive(config.step_rescale, where, "step_rescale");
  CheckDropout(config.dropout, where, "dropout");
  return std::make_unique<S5>(config, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "S5: one diagonal complex state space with many inputs and outputs";
  entry.source = "arXiv 2208.04933, lindermanlab/S5";
  entry.test_configs = {
      Object{{"d_state", 12},
             {"blocks", 2},
             {"conj_sym", false},
             {"clip_eigs", true},
             {"c_init", "lecun_normal"},
             {"activation", "full_glu"}},
      Object{{"d_state", 8},
             {"blocks", 1},
             {"c_init", "complex_normal"},
             {"discretization", "bilinear"},
             {"dt_min", 0.01},
             {"dt_max", 0.2},
             {"step_rescale", 0.5},
             {"activation", "half_glu2"},
             {"dropout", 0.25}},
      Object{{"d_state", 8}, {"blocks", 2}, {"activation", "silu"}},
      Object{{"d_state", 8}, {"blocks", 2}, {"activation", "gelu"}},
      Object{{"d_state", 8}, {"blocks", 2}, {"activation", "none"}},
  };
  registry.Add("s5", std::move(entry));
}

}  // namespace mixerbench::models::s5
