// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/s4/s4.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "models/blocks/config_checks.h"
#include "models/blocks/diagonal_modes.h"
#include "models/blocks/dtype.h"
#include "models/blocks/hippo.h"
#include "models/blocks/long_convolution.h"
#include "models/mixer_entry.h"
#include "models/mixers/s4/dplr_system.h"

namespace mixerbench::models::s4 {
namespace {

constexpr char kState[] = "state";
constexpr double kSlowest = 1e-4;  // decay and frequency at the start

const Fields<S4Config>& ConfigFields() {
  static const auto fields =
      Fields<S4Config>()
          .Add("d_state", &S4Config::d_state, "real numbers of state per channel, even")
          .Add("measure", &S4Config::measure, "HiPPO matrix at the start")
          .Add("n_ssm", &S4Config::n_ssm, "systems that the channels share; 0: d_model")
          .Add("clip_b", &S4Config::clip_b, "imaginary parts of B start in [-2, 2]")
          .Add("dt_transform", &S4Config::dt_transform, "what makes a time step of its parameter")
          .Add("dt_min", &S4Config::dt_min, "shortest time step at the start")
          .Add("dt_max", &S4Config::dt_max, "longest time step at the start")
          .Add("dropout", &S4Config::dropout, "before and after the GELU")
          .Add("tie_dropout", &S4Config::tie_dropout, "one mask for all tokens of a sequence");
  return fields;
}

// What a system starts with: rate [M], b [M], p [R,M].
struct Start {
  at::Tensor rate;
  at::Tensor b;
  at::Tensor p;
};

// The conjugates of the modes kept: frequencies are positive.
Start StartOf(HippoMeasure measure, const S4Config& config) {
  const NormalPlusLowRank modes = Diagonalize(measure, config.d_state);
  const at::Tensor b = config.clip_b ? ClipImaginary(modes.b) : modes.b;
  return {at::complex(at::full_like(modes.omega, modes.decay), -modes.omega),
          b.conj().resolve_conj(), modes.p.conj().resolve_conj()};
}

// [S,M] or, of p, [R,S,M].
Start StartOfAll(const S4Config& config, std::int64_t num_systems) {
  std::vector<at::Tensor> rates;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> low_rank;
  const auto add = [&](HippoMeasure measure, std::int64_t count) {
    const Start start = StartOf(measure, config);
    rates.push_back(start.rate.expand({count, -1}));
    inputs.push_back(start.b.expand({count, -1}));
    low_rank.push_back(start.p.unsqueeze(1).expand({-1, count, -1}));
  };
  switch (config.measure) {
    case S4Measure::kLegs:
      add(HippoMeasure::kLegs, num_systems);
      break;
    case S4Measure::kLegt:
      add(HippoMeasure::kLegt, num_systems);
      break;
    case S4Measure::kFourier:
      add(HippoMeasure::kFourier, num_systems);
      break;
    case S4Measure::kHippo:
      add(HippoMeasure::kLegs, num_systems / 2);
      add(HippoMeasure::kFourier, num_systems / 2);
      break;
  }
  const at::Tensor rate = at::cat(rates);
  return {at::complex(at::real(rate).clamp_max(-kSlowest), at::imag(rate).clamp_min(kSlowest)),
          at::cat(inputs), at::cat(low_rank, 1)};
}

class S4 final : public Mixer {
 public:
  S4(const S4Config& config, std::int64_t num_systems, const MixerContext& context,
     const ParameterScope& scope)
      : S4(config, StartOfAll(config, num_systems), context, scope) {}

  State InitialState(std::int64_t batch_size) const override {
    return StateOf(ZeroState(batch_size, c10::toComplexType(AtLeastFloat(output_).scalar_type())));
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const at::Tensor u = AtLeastFloat(inputs.x);
    at::Tensor state = Find(options.initial_state, kState);
    const DplrSystem system = System();
    Mixed mixed;
    at::Tensor y;
    if (options.path == ExecutionPath::kReference) {
      y = ByRecurrence(system, u, state);
    } else {
      // The kernel ends with length_; longer inputs go on from a state.
      std::vector<at::Tensor> pieces;
      for (std::int64_t first = 0; first < u.size(1); first += length_) {
        const std::int64_t size = std::min(length_, u.size(1) - first);
        const at::Tensor piece = u.narrow(1, first, size);
        pieces.push_back(ByConvolution(system, piece, state));
        if (options.want_final_state || first + size < u.size(1)) {
          state = StateAfter(system, piece, state);
        }
      }
      y = pieces.size() == 1 ? pieces[0] : at::cat(pieces, 1);
    }
    mixed.tokens = after_.Tokens(y, inputs.x, options);
    if (options.want_final_state) mixed.final_state = StateOf(state);
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    return after_(mixed, options);
  }

 private:
  S4(const S4Config& config, const Start& start, const MixerContext& context,
     const ParameterScope& scope)
      : length_(std::max<std::int64_t>(1, context.max_seq_len)),
        steps_(scope, "inv_dt", context.d_model, StepsOf(config)),
        rates_(scope, start.rate, kSlowest),
        input_(AddSsmParameter(scope, "B", ToPairs(start.b))),
        low_rank_(AddSsmParameter(scope, "P", ToPairs(start.p))),
        after_({config.dropout, config.tie_dropout}, context, scope) {
    const std::int64_t channels = context.d_model;
    at::Tensor read =
        FromPairs(scope.Draw("C", {channels, config.d_state / 2, 2}, Init::Normal(std::sqrt(0.5))));
    // What is trained reads the kernel of length_ tokens: C (I - Abar^length).
    if (!input_.is_meta()) {
      const at::Tensor step = TimeSteps::Draw(scope, "inv_dt", channels, StepsOf(config));
      read = Truncate(Shared(start.rate, start.p, start.b, step), read, length_);
    }
    output_ = AddComplex(scope, "C", read);
  }

  static TimeStepConfig StepsOf(const S4Config& config) {
    return {config.dt_min, config.dt_max, config.dt_transform};
  }

  static State StateOf(const at::Tensor& state) { return {.tensors = {{kState, {state}}}}; }

  // Of channels that share systems; as many as there are steps.
  static DplrSystem Shared(const at::Tensor& rate, const at::Tensor& p, const at::Tensor& input,
                           const at::Tensor& step) {
    const std::int64_t channels = step.size(0);
    std::vector<at::Tensor> low_rank;
    for (const at::Tensor& vectors : p.unbind(0)) {
      low_rank.push_back(ShareSystems(vectors, channels));
    }
    return {.rate = ShareSystems(rate, channels),
            .p = at::stack(low_rank),
            .input = ShareSystems(input, channels),
            .step = step};
  }

  DplrSystem System() const {
    return Shared(rates_(), FromPairs(low_rank_), FromPairs(input_), steps_());
  }

  at::Tensor ByConvolution(const DplrSystem& system, const at::Tensor& u,
                           const at::Tensor& state) const {
    const at::Tensor read = FromPairs(output_);
    const std::int64_t size = u.size(1);
    const auto kernels = [&](const at::Tensor& inputs) {
      return TruncatedKernel(system, read, inputs, length_).narrow(-1, 0, size).to(u.scalar_type());
    };
    const at::Tensor filter = kernels(system.input.unsqueeze(0)).squeeze(0);  // [D,T]
    const at::Tensor y = LongConvolution(u, filter.t(), size, ExecutionPath::kFast);
    if (!state.defined()) return y;
    return y + kernels(InputOfState(system, state.to(at::kComplexDouble))).transpose(1, 2);
  }

  at::Tensor ByRecurrence(const DplrSystem& system, const at::Tensor& u, at::Tensor& state) const {
    const auto dtype = c10::toComplexType(u.scalar_type());
    const at::Tensor read = Untruncate(system, FromPairs(output_), length_).to(dtype);
    const LinearStep step(system, dtype);
    state = state.defined() ? state.to(dtype) : ZeroState(u.size(0), dtype);
    std::vector<at::Tensor> y;
    for (const at::Tensor& token : u.unbind(1)) {
      state = step(state, token);
      y.push_back(at::real(read * state).sum(-1) * 2);
    }
    return at::stack(y, 1);
  }

  at::Tensor ZeroState(std::int64_t batch_size, at::ScalarType dtype) const {
    return at::zeros({batch_size, output_.size(0), output_.size(1)},
                     output_.options().dtype(dtype).requires_grad(false));
  }

  std::int64_t length_;  // of the kernel
  TimeSteps steps_;
  DiagonalRates rates_;
  at::Tensor input_;     // pairs [S,M,2]
  at::Tensor low_rank_;  // pairs [R,S,M,2]
  at::Tensor output_;    // pairs [D,M,2]
  StateSpaceOutput after_;
};

std::unique_ptr<Mixer> Make(const S4Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.d_state, 2, 1024, where, "d_state");
  DivideExactly(config.d_state, 2, where, "d_state", "d_state");
  CheckSteps(config.dt_min, config.dt_max, where);
  CheckDropout(config.dropout, where, "dropout");
  CheckRange(config.n_ssm, 0, context.d_model, where, "n_ssm");
  const std::int64_t num_systems = config.n_ssm != 0 ? config.n_ssm : context.d_model;
  DivideExactly(context.d_model, num_systems, where, "n_ssm", "d_model");
  if (config.measure == S4Measure::kHippo && num_systems % 2 != 0) {
    throw ConfigError(where + "/measure", "hippo has two halves, but there are " +
                                              std::to_string(num_systems) + " systems (n_ssm)");
  }
  return std::make_unique<S4>(config, num_systems, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "S4: a diagonal-plus-low-rank state space for every channel";
  entry.source = "arXiv 2111.00396, 2206.12037; state-spaces/s4 e757cef";
  entry.test_configs = {
      Object{{"d_state", 8},
             {"n_ssm", 1},
             {"clip_b", false},
             {"dt_transform", "softplus"},
             {"dt_min", 0.01},
             {"dt_max", 0.2},
             {"dropout", 0.25},
             {"tie_dropout", false}},
      Object{{"d_state", 6}, {"measure", "legt"}, {"n_ssm", 2}},
  };
  registry.Add("s4", std::move(entry));
}

}  // namespace mixerbench::models::s4
