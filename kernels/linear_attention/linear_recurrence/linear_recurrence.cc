// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/linear_recurrence/linear_recurrence.h"

#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/real.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "kernels/linear_attention/linear_recurrence/linear_recurrence_cuda.h"
#include "kernels/linear_attention/linear_recurrence/linear_recurrence_plan.h"
#include "kernels/named_tensors.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plan.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

// log lambda in parts: products of complex infinities are NaN.
struct LogDecay {
  at::Tensor re;
  at::Tensor im;  // undefined: real

  explicit LogDecay(const at::Tensor& x) : re(x) {
    if (!x.is_complex()) return;
    re = at::real(x);
    im = at::imag(x);
  }
  LogDecay(at::Tensor real_part, at::Tensor imaginary_part)
      : re(std::move(real_part)), im(std::move(imaginary_part)) {}

  // [C]: the same for all tokens.
  bool constant() const { return re.dim() == 1; }

  template <typename View>
  LogDecay Map(const View& view) const {
    return {view(re), im.defined() ? view(im) : im};
  }

  at::Tensor Exp(at::ScalarType dtype) const {
    const at::Tensor size = re.exp();
    return (im.defined() ? at::polar(size, im) : size).to(dtype);
  }
};

}  // namespace

namespace linear_recurrence {

at::ScalarType Prepare(const LinearRecurrenceArgs& args) {
  Require(args.x.defined() && args.x.dim() == 3 && args.x.numel() > 0,
          "x must be [B,T,C] with at least one element");
  Require(args.x.is_floating_point() || args.x.is_complex(), "x must be floating or complex");
  Require(args.log_decay.defined(), "log_decay is missing");
  const at::ScalarType log_dtype = c10::toRealValueType(args.log_decay.scalar_type());
  Require(log_dtype == at::kFloat || log_dtype == at::kDouble,
          "log_decay must be float32 or float64, real or complex");
  if (args.log_decay.dim() == 1) {
    RequireShape(args.log_decay, {args.x.size(2)}, "log_decay");
  } else {
    RequireShape(args.log_decay, {args.x.size(0), args.x.size(1), args.x.size(2)}, "log_decay");
  }
  Require(args.log_decay.device() == args.x.device(), "log_decay and x are on different devices");
  const at::ScalarType real =
      c10::toRealValueType(args.x.scalar_type()) == at::kDouble ? at::kDouble : at::kFloat;
  const bool is_complex = args.x.is_complex() || args.log_decay.is_complex();
  if (args.initial_state.defined()) {
    RequireShape(args.initial_state, {args.x.size(0), args.x.size(2)}, "initial_state");
    Require(args.initial_state.device() == args.x.device(),
            "initial_state and x are on different devices");
    Require(is_complex || !args.initial_state.is_complex(),
            "the state of a real recurrence is real");
  }
  return is_complex ? c10::toComplexType(real) : real;
}

at::Tensor Decay(const at::Tensor& log_decay, at::ScalarType dtype) {
  return LogDecay(log_decay).Exp(dtype);
}

}  // namespace linear_recurrence

namespace {

using linear_recurrence::Decay;

constexpr char kCore[] = "linear_recurrence";

at::Tensor EverySecond(const at::Tensor& x, std::int64_t first) {
  return x.slice(1, first, x.size(1), 2);
}

// target = exp(log_decay) * h + x.
void StepInto(const at::Tensor& target, const LogDecay& log_decay, const at::Tensor& h,
              const at::Tensor& x) {
  at::Tensor out = target;
  at::mul_out(out, log_decay.Exp(x.scalar_type()), h).add_(x);
}

// Of `count` tokens from `first` on in steps of two.
LogDecay Every2nd(const LogDecay& x, std::int64_t first, std::int64_t count) {
  if (x.constant()) return x;
  return x.Map(
      [&](const at::Tensor& part) { return EverySecond(part, first).narrow(1, 0, count); });
}

// Of pairs of neighbours.
LogDecay PairSums(const LogDecay& x, std::int64_t num_pairs) {
  return x.Map([&](const at::Tensor& part) {
    if (x.constant()) return part * 2;
    return EverySecond(part, 1) + EverySecond(part, 0).narrow(1, 0, num_pairs);
  });
}

// h of x [B,T,C] from a state of zeros; the first log decay is not used.
at::Tensor Scan(const at::Tensor& x, const LogDecay& log_decay) {
  const std::int64_t length = x.size(1);
  if (length == 1) return x;
  const std::int64_t num_pairs = length / 2;
  const at::Tensor even = EverySecond(x, 0);
  const at::Tensor odd = EverySecond(x, 1);
  const at::Tensor pairs = at::empty_like(odd, at::MemoryFormat::Contiguous);
  StepInto(pairs, Every2nd(log_decay, 1, num_pairs), even.narrow(1, 0, num_pairs), odd);
  const at::Tensor h_odd = Scan(pairs, PairSums(log_decay, num_pairs));

  const at::Tensor h = at::empty_like(x, at::MemoryFormat::Contiguous);
  const at::Tensor h_even = EverySecond(h, 0);
  EverySecond(h, 1).copy_(h_odd);
  h_even.select(1, 0).copy_(even.select(1, 0));
  const std::int64_t num_rest = even.size(1) - 1;
  if (num_rest > 0) {
    StepInto(h_even.narrow(1, 1, num_rest), Every2nd(log_decay, 2, num_rest),
             h_odd.narrow(1, 0, num_rest), even.narrow(1, 1, num_rest));
  }
  return h;
}

at::Tensor First(const at::Tensor& x) { return x.dim() == 1 ? x : x.select(1, 0); }

at::Tensor Forward(const LinearRecurrenceArgs& args, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  at::Tensor x = args.x.to(dtype);
  if (args.initial_state.defined()) {
    const at::Tensor first =
        Decay(First(args.log_decay), dtype) * args.initial_state.to(dtype) + x.select(1, 0);
    x = at::cat({first.unsqueeze(1), x.narrow(1, 1, x.size(1) - 1)}, 1);
  }
  const at::Tensor h = Scan(x, LogDecay(args.log_decay));
  return h.is_alias_of(args.x) ? h.clone() : h;
}

// Like a parameter or input of the given dtype: the real part where that is real.
at::Tensor As(const at::Tensor& gradient, at::ScalarType dtype) {
  if (gradient.is_complex() && !c10::isComplexType(dtype)) return at::real(gradient).to(dtype);
  return gradient.to(dtype);
}

// saved: h, log_decay, initial_state or undefined.
std::vector<at::Tensor> Backward(const BackwardArgs& args, at::ScalarType x_dtype) {
  const at::Tensor &h = args.saved[0], &log_decay = args.saved[1], &initial = args.saved[2];
  const at::ScalarType dtype = h.scalar_type();
  const bool constant = log_decay.dim() == 1;
  const std::int64_t length = h.size(1);
  // g_t = dh_t + conj(lambda_{t+1}) g_{t+1}: the same scan from the end.
  LogDecay reversed = LogDecay(log_decay).Map(
      [&](const at::Tensor& part) { return constant ? part : part.roll(-1, 1).flip(1); });
  if (reversed.im.defined()) reversed.im = -reversed.im;
  const at::Tensor g = Scan(args.grads[0].flip(1), reversed).flip(1);

  const at::Tensor g_first = g.select(1, 0);
  at::Tensor d_log_decay;
  if (args.wanted[1]) {  // conj(lambda_t h_{t-1}) g_t
    const at::Tensor later = h.narrow(1, 0, length - 1).conj() * g.narrow(1, 1, length - 1);
    if (constant) {
      at::Tensor sum = later.sum(at::IntArrayRef({0, 1}));
      if (initial.defined()) sum = sum + (initial.to(dtype).conj() * g_first).sum(0);
      d_log_decay = sum * Decay(log_decay, dtype).conj();
    } else {
      const at::Tensor first = initial.defined() ? initial.to(dtype).conj() * g_first : g_first * 0;
      d_log_decay = at::cat({first.unsqueeze(1), later}, 1) * Decay(log_decay, dtype).conj();
    }
    d_log_decay = As(d_log_decay, log_decay.scalar_type());
  }
  at::Tensor d_initial;
  if (args.wanted[2] && initial.defined()) {
    d_initial = As(Decay(First(log_decay), dtype).conj() * g_first, initial.scalar_type());
  }
  return {As(g, x_dtype), d_log_decay, d_initial};
}

void Record(const LinearRecurrenceArgs& args, std::string_view plan, std::string_view reason) {
  const bool differentiates = NeedsBackward({args.x, args.log_decay, args.initial_state});
  RecordPlan(kCore, plan, differentiates ? plan : std::string_view(), reason);
}

// The registry knows real tensors: the last axis of h and of states holds real parts, then
// imaginary parts.
NamedTensors Run(const NamedTensors& inputs, const CoreOptions& options) {
  const at::Tensor x = FindTensor(inputs, "x");
  Require(x.defined() && x.dim() == 4, "x must be [B,T,H,K]");
  at::Tensor log_decay = FindTensor(inputs, "log_decay");
  const at::Tensor angle = FindTensor(inputs, "angle");
  at::Tensor initial_state = FindTensor(inputs, "initial_state");
  if (log_decay.defined()) {
    RequireShape(log_decay, {x.size(0), x.size(1), x.size(2), x.size(3)}, "log_decay");
    log_decay = log_decay.flatten(2);
  } else {
    log_decay = at::zeros({x.size(2) * x.size(3)},
                          x.options().dtype(c10::promoteTypes(x.scalar_type(), at::kFloat)));
  }
  RequireShape(angle, {x.size(0), x.size(1), x.size(2), x.size(3)}, "angle");
  const at::Tensor turn = angle.flatten(2).to(log_decay.scalar_type());
  log_decay = at::complex(log_decay.expand(turn.sizes()), turn);
  if (initial_state.defined()) {
    RequireShape(initial_state, {x.size(0), x.size(2), 2 * x.size(3)}, "initial_state");
    const auto parts = initial_state.chunk(2, -1);
    initial_state = at::complex(parts[0], parts[1]);
    initial_state = initial_state.flatten(1);
  }
  const LinearRecurrenceResult result = LinearRecurrence(
      {.x = x.flatten(2), .log_decay = log_decay, .initial_state = initial_state}, options.path);
  const auto join = [&](const at::Tensor& h) {
    const at::Tensor heads = h.unflatten(-1, {x.size(2), x.size(3)});
    return at::cat({at::real(heads), at::imag(heads)}, -1);
  };
  return {{"o", join(result.h)}, {"final_state", join(result.final_state)}};
}

}  // namespace

LinearRecurrenceResult ScanLinearRecurrence(const LinearRecurrenceArgs& args) {
  const at::ScalarType dtype = linear_recurrence::Prepare(args);
  const at::Tensor h = Forward(args, dtype);
  const at::ScalarType x_dtype = args.x.scalar_type();
  SetBackward(kCore, {args.x, args.log_decay, args.initial_state}, {h},
              {h, args.log_decay, args.initial_state},
              [x_dtype](const BackwardArgs& backward) { return Backward(backward, x_dtype); });
  return {.h = h, .final_state = h.select(1, h.size(1) - 1)};
}

LinearRecurrenceResult LinearRecurrence(const LinearRecurrenceArgs& args, ExecutionPath path) {
  if (path == ExecutionPath::kReference) {
    Record(args, kReferencePlan, kReferenceAsked);
    return ReferenceLinearRecurrence(args);
  }
  auto on_device = linear_recurrence::RunOnCuda(args, linear_recurrence::Prepare(args));
  if (on_device.result) return *std::move(on_device.result);
  Record(args, kAtenPlan, on_device.refusal);
  return ScanLinearRecurrence(args);
}

namespace linear_recurrence {

void Register(CoreRegistry& registry) {
  CoreEntry entry;
  entry.summary = "diagonal linear recurrence of first order, real or complex, by associative scan";
  entry.source = "Blelloch 1990; arXiv 2208.04933 (S5), 2303.06349 (LRU)";
  entry.inputs = {
      {.name = "x", .shape = "B T H K", .help = "what is added to the state"},
      LogDecaySpec("B T H K", "logarithm of the modulus of the factor of the state; none: 1"),
      {.name = "angle",
       .shape = "B T H K",
       .help = "argument of that factor: states are complex, real parts of all K, then imaginary "
               "parts"},
      InitialStateSpec("B H K"),
  };
  entry.outputs = {
      {.name = "o", .shape = "B T H K", .full_precision = true, .help = "all states"},
      FinalStateSpec("B H K"),
  };
  entry.state_pairs = {{"final_state", "initial_state"}};
  entry.device_plans = DevicePlans();
  entry.run = Run;
  registry.Add(kCore, std::move(entry));
}

}  // namespace linear_recurrence
}  // namespace mixerbench::kernels
