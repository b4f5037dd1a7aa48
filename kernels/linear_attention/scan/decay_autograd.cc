// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/scan/decay_autograd.h"

#include <cstdint>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "kernels/device/host.h"
#include "kernels/device/launch.h"
#include "kernels/layout/columns.h"
#include "kernels/linear_attention/scan/decay_scan_layout.h"
#include "kernels/linear_attention/scan/decay_scan_plans.h"

namespace mixerbench::kernels::decay_scan {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A head's state as a scan sees it: [B,H,K,V] in memory, with keys of the scan along K or along V.
enum class StateOrder { kKeysAlongK, kKeysAlongV };

struct Operation {
  const DecayKernels* kernels = nullptr;
  OperandPrecision precision = OperandPrecision::kBf16;
  float scale = 1;
};

template <typename Function>
Function ForPrecision(const std::array<Function, 3>& functions, OperandPrecision precision) {
  return functions.at(static_cast<std::size_t>(precision));
}

// The scan from x, y, z to a fresh tensor like z.
ScanProblem MakeProblem(const Operation& op, const at::Tensor& x, const at::Tensor& y,
                        const at::Tensor& z, const at::Tensor& out, const at::Tensor& log_decay,
                        StateOrder order) {
  ScanProblem problem;
  problem.batch_size = x.size(0);
  problem.seq_len = x.size(1);
  problem.num_heads = x.size(2);
  problem.key_dim = x.size(3);
  problem.value_dim = z.size(3);
  problem.precision = op.precision;
  problem.x = AsSequence(x);
  problem.y = AsSequence(y);
  problem.z = AsSequence(z);
  problem.out = AsSequence(out);
  if (log_decay.defined()) problem.log_decay = AsSequence(log_decay);
  const bool along_k = order == StateOrder::kKeysAlongK;
  problem.state_key_stride = along_k ? problem.value_dim : 1;
  problem.state_value_stride = along_k ? 1 : problem.key_dim;
  return problem;
}

void RunScan(const Operation& op, DecayAxis axis, ScanFunction scan, ScanProblem problem,
             const at::Tensor& like) {
  const ScanPlan plan = PlanScan(problem, axis, LimitsOf(like));
  const auto fp32 = like.options().dtype(at::kFloat);
  at::Tensor segment_states;
  at::Tensor segment_decays;
  if (plan.num_segments > 1) {
    segment_states = at::empty({SegmentStateElements(problem, plan)}, fp32);
    segment_decays = at::empty({SegmentDecayElements(problem, plan)}, fp32);
    problem.segment_states = segment_states.mutable_data_ptr<float>();
    problem.segment_decays = segment_decays.mutable_data_ptr<float>();
  }
  CheckLaunch(scan(problem, plan, CurrentStream(like)), op.kernels->core);
}

at::Tensor EmptyState(const at::Tensor& q, const at::Tensor& v) {
  return at::empty({q.size(0), q.size(2), q.size(3), v.size(3)}, q.options().dtype(at::kFloat));
}

at::Tensor EmptyDense(const at::Tensor& like) {
  return at::empty(like.sizes(), like.options().memory_format(at::MemoryFormat::Contiguous));
}

// Has the scan multiply `out` by `factor` and sum over channels; returns where the sums will be.
at::Tensor AddTokenProducts(ScanProblem& problem, const at::Tensor& factor) {
  problem.factor = AsSequence(factor);
  auto products = at::empty({TokenProductElements(problem)}, factor.options().dtype(at::kFloat));
  problem.token_products = products.mutable_data_ptr<float>();
  return products;
}

struct Gradients {
  at::Tensor q, k, v, log_decay, initial_state;
};

struct Wanted {
  bool q = false, k = false, v = false, log_decay = false, initial_state = false;
};

// What the gradient of decays of value channels takes from the forward pass; else undefined.
struct Read {
  at::Tensor o;
  at::Tensor states;  // ScanProblem::states_to_save
};

// Where the scan behind `problem` leaves the products with the states that an earlier scan saved.
at::Tensor CompareStates(ScanProblem& problem, DecayAxis axis, const at::Tensor& states,
                         const at::Tensor& initial_state, const at::Tensor& like) {
  const std::int64_t chunk = SavedChunk(axis);
  auto products = at::empty({(problem.seq_len + chunk - 1) / chunk, problem.batch_size,
                             problem.num_heads, problem.value_dim},
                            like.options().dtype(at::kFloat));
  problem.states_to_compare = states.const_data_ptr();
  problem.first_state = FloatsOf(initial_state);
  problem.state_products = products.mutable_data_ptr<float>();
  return products;
}

// Of decays of value channels: the scans to o and dv are then
// what those to dq and dk are otherwise, and their sums o do - v dv.
at::Tensor ValueDecayGradient(const Operation& op, const at::Tensor& v, const at::Tensor& d_v,
                              const at::Tensor& o, const at::Tensor& d_o,
                              const at::Tensor& log_decay, const at::Tensor& initial_state,
                              const at::Tensor& state_products, std::int64_t head_k_dim) {
  auto d_log_decay = at::empty(log_decay.sizes(), v.options().dtype(at::kFloat));
  const DecayGradientProblem problem = {.batch_size = v.size(0),
                                        .seq_len = v.size(1),
                                        .num_heads = v.size(2),
                                        .key_dim = v.size(3),
                                        .value_dim = head_k_dim,
                                        .precision = op.precision,
                                        .scale = op.scale,
                                        .q = AsSequence(d_o),
                                        .k = AsSequence(v),
                                        .v = {},
                                        .d_o = {},
                                        .d_q = AsSequence(o),
                                        .d_k = AsSequence(d_v),
                                        .log_decay = AsSequence(log_decay),
                                        .initial_state = FloatsOf(initial_state),
                                        .state_products = FloatsOf(state_products),
                                        .d_log_decay = d_log_decay.mutable_data_ptr<float>()};
  CheckLaunch(ForPrecision(op.kernels->decay_gradient, op.precision)(problem, CurrentStream(v)),
              op.kernels->core);
  return d_log_decay;
}

Gradients Backward(const Operation& op, const Wanted& wanted, const at::Tensor& q,
                   const at::Tensor& k, const at::Tensor& v, const at::Tensor& log_decay,
                   const at::Tensor& initial_state, const Read& read, const at::Tensor& d_o,
                   const at::Tensor& d_final_state) {
  const DecayKernels& kernels = *op.kernels;
  const auto read_scan = ForPrecision(kernels.read_scan, op.precision);
  const auto gradient_scan = ForPrecision(kernels.gradient_scan, op.precision);
  Gradients d;
  const bool wants_value_decay = wanted.log_decay && kernels.read_axis == DecayAxis::kValue;
  const bool wants_key_decay = wanted.log_decay && !wants_value_decay;  // or that of tokens
  const bool wants_q = wanted.q || wants_key_decay;
  const bool wants_k = wanted.k || wants_key_decay;
  const bool wants_v = wanted.v || wants_value_decay || wanted.initial_state;
  if (wants_q && wants_k && wants_v) {
    auto together = EmptyTogether({q, k, v});
    d.q = std::move(together[0]);
    d.k = std::move(together[1]);
    d.v = std::move(together[2]);
  } else {
    if (wants_q) d.q = EmptyDense(q);
    if (wants_k) d.k = EmptyDense(k);
    if (wants_v) d.v = EmptyDense(v);
  }
  // Of all scans of this core alike: they differ in the order of the head's two sizes alone.
  const bool sums_tokens =
      wants_key_decay &&
      SupportsWgmma(MakeProblem(op, d_o, v, k, d.q, log_decay, StateOrder::kKeysAlongV),
                    kernels.gradient_axis, LimitsOf(q));
  // Other scans with one decay a token save the gradients of states beside the states.
  const bool saves_gradients =
      wants_key_decay && !sums_tokens && kernels.gradient_axis == DecayAxis::kNone;
  at::Tensor states, d_states;
  at::Tensor q_products, k_products, state_products;
  if (wants_q) {
    auto problem = MakeProblem(op, d_o, v, k, d.q, log_decay, StateOrder::kKeysAlongV);
    problem.x_scale = op.scale;
    problem.initial_state = FloatsOf(initial_state);
    if (wants_key_decay) {
      states = at::empty({SavedStateElements(problem, kernels.gradient_axis)}, q.options());
      problem.states_to_save = states.mutable_data_ptr();
    }
    if (sums_tokens) q_products = AddTokenProducts(problem, q);
    RunScan(op, kernels.gradient_axis, gradient_scan, problem, q);
  }
  if (wants_k) {
    auto problem = MakeProblem(op, v, d_o, q, d.k, log_decay, StateOrder::kKeysAlongV);
    problem.reverse = true;
    problem.y_scale = op.scale;
    problem.initial_state = FloatsOf(d_final_state);
    if (sums_tokens) k_products = AddTokenProducts(problem, k);
    if (saves_gradients) {
      d_states = at::empty_like(states);
      problem.states_to_save = d_states.mutable_data_ptr();
    } else if (wants_key_decay) {
      state_products = CompareStates(problem, kernels.gradient_axis, states, initial_state, q);
    }
    RunScan(op, kernels.gradient_axis, gradient_scan, problem, q);
  }
  if (wants_key_decay) {
    d.log_decay = at::empty(log_decay.sizes(), q.options().dtype(at::kFloat));
    DecayGradientProblem problem = {.batch_size = q.size(0),
                                    .seq_len = q.size(1),
                                    .num_heads = q.size(2),
                                    .key_dim = q.size(3),
                                    .value_dim = v.size(3),
                                    .precision = op.precision,
                                    .scale = op.scale,
                                    .q = AsSequence(q),
                                    .k = AsSequence(k),
                                    .v = AsSequence(v),
                                    .d_o = AsSequence(d_o),
                                    .d_q = AsSequence(d.q),
                                    .d_k = AsSequence(d.k),
                                    .log_decay = AsSequence(log_decay),
                                    .initial_state = FloatsOf(initial_state),
                                    .q_products = FloatsOf(q_products),
                                    .k_products = FloatsOf(k_products),
                                    .state_products = FloatsOf(state_products),
                                    .d_log_decay = d.log_decay.mutable_data_ptr<float>()};
    if (sums_tokens) problem.num_product_sums = NumProductSums(q.size(3));
    if (saves_gradients) {
      problem.states = states.const_data_ptr();
      problem.d_states = d_states.const_data_ptr();
    }
    CheckLaunch(ForPrecision(kernels.decay_gradient, op.precision)(problem, CurrentStream(q)),
                kernels.core);
  }
  if (wants_v) {
    auto problem = MakeProblem(op, k, q, d_o, d.v, log_decay, StateOrder::kKeysAlongK);
    problem.reverse = true;
    problem.y_scale = op.scale;
    problem.initial_state = FloatsOf(d_final_state);
    if (wanted.initial_state) {
      d.initial_state = at::empty_like(initial_state);
      problem.final_state = d.initial_state.mutable_data_ptr<float>();
    }
    if (wants_value_decay) {
      state_products = CompareStates(problem, kernels.read_axis, read.states, initial_state, q);
    }
    RunScan(op, kernels.read_axis, read_scan, problem, q);
  }
  if (wants_value_decay) {
    d.log_decay = ValueDecayGradient(op, v, d.v, read.o, d_o, log_decay, initial_state,
                                     state_products, q.size(3));
  }
  return d;
}

bool WantsGradient(const std::optional<at::Tensor>& x) { return x && x->requires_grad(); }

class DecayFunction : public torch::autograd::Function<DecayFunction> {
 public:
  // Tensors as scans take them: aligned rows, gates and states in fp32, states dense.
  static variable_list forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const std::optional<at::Tensor>& log_decay,
                               const std::optional<at::Tensor>& initial_state,
                               const Operation& op) {
    const c10::DeviceGuard guard(q.device());
    const auto o = EmptyDense(v);
    const auto final_state = EmptyState(q, v);
    auto problem =
        MakeProblem(op, q, k, v, o, log_decay.value_or(at::Tensor()), StateOrder::kKeysAlongK);
    problem.x_scale = op.scale;
    problem.initial_state = FloatsOf(initial_state.value_or(at::Tensor()));
    problem.final_state = final_state.mutable_data_ptr<float>();
    Read read;
    if (op.kernels->read_axis == DecayAxis::kValue && WantsGradient(log_decay)) {
      read.states = at::empty({SavedStateElements(problem, DecayAxis::kValue)}, q.options());
      problem.states_to_save = read.states.mutable_data_ptr();
      read.o = o;
    }
    RunScan(op, op.kernels->read_axis, ForPrecision(op.kernels->read_scan, op.precision), problem,
            q);

    context->save_for_backward({q, k, v, log_decay.value_or(at::Tensor()),
                                initial_state.value_or(at::Tensor()), read.o, read.states});
    context->set_materialize_grads(false);
    auto& data = context->saved_data;
    data["kernels"] = reinterpret_cast<std::int64_t>(op.kernels);
    data["precision"] = static_cast<std::int64_t>(op.precision);
    data["scale"] = static_cast<double>(op.scale);
    data["wants"] = std::vector<bool>{q.requires_grad(), k.requires_grad(), v.requires_grad(),
                                      WantsGradient(log_decay), WantsGradient(initial_state)};
    return {o, final_state};
  }

  static variable_list backward(AutogradContext* context, variable_list d_outputs) {
    Require(!at::GradMode::is_enabled(), "the device code has no second derivatives");
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const Operation op = {.kernels = reinterpret_cast<const DecayKernels*>(data["kernels"].toInt()),
                          .precision = static_cast<OperandPrecision>(data["precision"].toInt()),
                          .scale = static_cast<float>(data["scale"].toDouble())};
    const auto wants = data["wants"].toBoolList();
    const Wanted wanted = {.q = wants[0],
                           .k = wants[1],
                           .v = wants[2],
                           .log_decay = wants[3],
                           .initial_state = wants[4]};
    const c10::DeviceGuard guard(saved[0].device());
    const auto d_o = d_outputs[0].defined() ? WithAlignedRows(d_outputs[0])
                                            : at::zeros(saved[2].sizes(), saved[2].options());
    const auto d_final_state = d_outputs[1].defined() ? d_outputs[1].contiguous() : at::Tensor();
    auto d = Backward(op, wanted, saved[0], saved[1], saved[2], saved[3], saved[4],
                      {.o = saved[5], .states = saved[6]}, d_o, d_final_state);
    return {std::move(d.q),
            std::move(d.k),
            std::move(d.v),
            std::move(d.log_decay),
            std::move(d.initial_state),
            at::Tensor()};
  }
};

// The kernel that forms the gradient of one log decay a token holds a chunk of all tensors.
bool FitsDecayGradient(const RecurrenceArgs& args, const PreparedRecurrence& sizes,
                       const DecayKernels& kernels) {
  if (kernels.gradient_axis != DecayAxis::kNone || !args.log_decay.defined() ||
      !args.log_decay.requires_grad()) {
    return true;
  }
  const DecayGradientLayout layout(static_cast<int>(args.q.element_size()), sizes.head_k_dim,
                                   sizes.head_v_dim);
  return layout.bytes <= LimitsOf(args.q).shared_memory_bytes;
}

std::string ScanRefusal(const RecurrenceArgs& args, const PreparedRecurrence& sizes,
                        const DecayKernels& kernels, OperandPrecision precision) {
  if (kernels.read_axis != DecayAxis::kNone && !args.log_decay.defined()) {
    return "no device code without decays";
  }
  std::string reason = Refusal(DecayScanPlans(kernels.read_axis), NameOf(precision),
                               sizes.head_k_dim, sizes.head_v_dim);
  if (reason.empty() && !FitsDecayGradient(args, sizes, kernels)) {
    reason = "too little shared memory for the gradient of the log decays";
  }
  return reason;
}

// Of the scan that reads keys and writes values of these sizes.
std::string_view ScanName(const PreparedRecurrence& sizes, OperandPrecision precision,
                          std::int64_t key_dim, std::int64_t value_dim, DecayAxis axis,
                          const DeviceLimits& limits) {
  return NameOf(PlanScan({.batch_size = sizes.batch_size,
                          .seq_len = sizes.seq_len,
                          .num_heads = sizes.num_heads,
                          .key_dim = key_dim,
                          .value_dim = value_dim,
                          .precision = precision},
                         axis, limits));
}

// The scans of a pass may differ in their plans: then of dq and dk, and of dv, with "+" between.
void RecordScans(const RecurrenceArgs& args, const PreparedRecurrence& sizes,
                 const DecayKernels& kernels, OperandPrecision precision) {
  const DeviceLimits limits = LimitsOf(args.q);
  const auto name = [&](std::int64_t key_dim, std::int64_t value_dim, DecayAxis axis) {
    return ScanName(sizes, precision, key_dim, value_dim, axis, limits);
  };
  const std::string_view read = name(sizes.head_k_dim, sizes.head_v_dim, kernels.read_axis);
  std::string backward;
  if (NeedsGradients(args)) {
    backward = name(sizes.head_v_dim, sizes.head_k_dim, kernels.gradient_axis);
    if (backward != read) (backward += "+") += read;
  }
  RecordPlan(kernels.core, read, backward);
}

}  // namespace

DeviceAttempt<RecurrenceResult> RunDecayScans(const RecurrenceArgs& args,
                                              const PreparedRecurrence& sizes,
                                              const DecayKernels& kernels,
                                              std::optional<OperandPrecision> products) {
  std::string refusal = DeviceRefusal(args.q);
  if (!refusal.empty()) return {{}, std::move(refusal)};
  const OperandPrecision precision = products.value_or(*PrecisionFor(args.q.scalar_type()));
  refusal = ScanRefusal(args, sizes, kernels, precision);
  if (!refusal.empty()) return {{}, std::move(refusal)};
  if (RecordsPlans()) RecordScans(args, sizes, kernels, precision);
  std::optional<at::Tensor> log_decay;
  if (args.log_decay.defined()) {
    log_decay = args.log_decay.to(at::kFloat);
    if (log_decay->dim() == 4) log_decay = WithAlignedRows(*log_decay);
  }
  std::optional<at::Tensor> initial_state;
  if (args.initial_state.defined()) {
    initial_state = args.initial_state.to(at::kFloat).contiguous();
  }
  const Operation op = {
      .kernels = &kernels, .precision = precision, .scale = static_cast<float>(sizes.scale)};
  const auto outputs = DecayFunction::apply(WithAlignedRows(args.q), WithAlignedRows(args.k),
                                            WithAlignedRows(args.v), log_decay, initial_state, op);
  return {RecurrenceResult{.o = outputs[0], .final_state = outputs[1]}, {}};
}

}  // namespace mixerbench::kernels::decay_scan
