// Passes that carry a state: reading a prompt, and one more token of every sequence.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/view_as_real.h>

#include "harness/cells/parity.h"
#include "harness/cells/reference_pass.h"
#include "harness/cells/timed_pass.h"

namespace mixerbench::harness {
namespace {

models::State FirstSequences(models::State state, std::int64_t num_sequences) {
  models::ForEach(state, [&](const std::string&, models::StateTensor& tensor) {
    if (tensor.kind == models::StateKind::kPosition) return;
    tensor.value = tensor.value.narrow(0, 0, num_sequences);
  });
  return state;
}

models::State InFloat64(models::State state) {
  models::ForEach(state, [](const std::string&, models::StateTensor& tensor) {
    at::Tensor& value = tensor.value;
    if (value.is_complex()) value = value.to(at::kComplexDouble);
    if (value.is_floating_point()) value = value.to(at::kDouble);
  });
  return state;
}

// Its numbers; indices and positions follow from them.
void AddState(const models::State& state, Quantities& quantities) {
  models::ForEach(state, [&](const std::string& path, const models::StateTensor& tensor) {
    const bool is_complex = tensor.value.is_complex();
    if (!is_complex && !tensor.value.is_floating_point()) return;
    quantities.emplace_back("state." + path,
                            is_complex ? at::view_as_real(tensor.value) : tensor.value);
  });
}

class StatePass final : public TimedPass {
 public:
  // `tokens` [B,T] come after the `num_before` tokens that left `before`; nullptr: after none.
  StatePass(const PassContext& context, at::Tensor tokens, std::unique_ptr<models::State> before,
            std::int64_t num_before)
      : context_(context),
        tokens_(std::move(tokens)),
        before_(std::move(before)),
        num_before_(num_before),
        work_(context.graphs,
              [this] { Forward(context_.model, tokens_, before_.get(), TimedOptions(context_)); }) {
  }

  void Run() override { work_.Run(); }
  const RepeatedWork& work() const override { return work_; }

  // From the state that the timed pass begins with; the state after the tokens is compared too,
  // where all of them are.
  reports::Parity CompareWithReference() override {
    const std::int64_t seq_len = tokens_.size(1);
    ParitySample sample = SampleOf(context_, tokens_.size(0), num_before_ + seq_len);
    sample.num_tokens = std::min(sample.num_tokens, seq_len);
    const bool has_state = sample.num_tokens == seq_len;
    const auto quantities_of = [&](const models::BackboneOutput& output) {
      Quantities quantities = {
          {"hidden",
           output.hidden.narrow(0, 0, sample.num_sequences).narrow(1, 0, sample.num_tokens)}};
      if (has_state) AddState(FirstSequences(output.final_state, sample.num_sequences), quantities);
      return quantities;
    };
    const kernels::PlanRecorder recorder;
    const Quantities timed =
        quantities_of(Forward(context_.model, tokens_, before_.get(), TimedOptions(context_)));
    RequireSamePlans(work_, recorder);

    const at::Tensor tokens =
        tokens_.narrow(0, 0, sample.num_sequences).narrow(1, 0, sample.num_tokens);
    const auto evaluate = [&](const Model& model, const models::BackboneOptions& options) {
      if (before_ == nullptr) return quantities_of(Forward(model, tokens, nullptr, options));
      models::State before = FirstSequences(*before_, sample.num_sequences);
      if (options.compute_dtype == at::kDouble) before = InFloat64(std::move(before));
      return quantities_of(Forward(model, tokens, &before, options));
    };
    const std::vector<Quantities> naive = NaiveQuantities(context_, evaluate);
    const Quantities exact = ExactQuantities(context_, evaluate);
    return Describe(Compare(timed, naive, exact, context_.cell.train.dtype), sample,
                    has_state ? "forward, state" : "forward");
  }

  static models::BackboneOutput Forward(const Model& model, const at::Tensor& tokens,
                                        const models::State* before,
                                        models::BackboneOptions options) {
    const at::NoGradGuard no_grad;
    options.initial_state = before;
    options.want_final_state = true;
    return model.backbone->Forward(tokens, options);
  }

 private:
  const PassContext& context_;
  at::Tensor tokens_;  // [B,T]
  std::unique_ptr<models::State> before_;
  std::int64_t num_before_;
  RepeatedWork work_;
};

}  // namespace

std::unique_ptr<TimedPass> MakePrefillPass(const PassContext& context, std::int64_t seq_len) {
  return std::make_unique<StatePass>(context, RandomTokens(context, seq_len), nullptr, 0);
}

std::unique_ptr<TimedPass> MakeDecodePass(const PassContext& context, std::int64_t seq_len) {
  const at::Tensor tokens = RandomTokens(context, seq_len + 1);
  auto state = std::make_unique<models::State>(StatePass::Forward(context.model,
                                                                  tokens.narrow(1, 0, seq_len),
                                                                  nullptr, TimedOptions(context))
                                                   .final_state);
  return std::make_unique<StatePass>(context, tokens.narrow(1, seq_len, 1).contiguous(),
                                     std::move(state), seq_len);
}

}  // namespace mixerbench::harness
