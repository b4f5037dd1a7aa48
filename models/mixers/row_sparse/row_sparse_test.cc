// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/row_sparse/row_sparse.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "kernels/linear_attention/gla/gla.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/slot_memory.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::row_sparse {

void Register(MixerRegistry& registry);

namespace {

using testing::NewParameters;
using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 16, kHeads = 2, kRows = 8;
constexpr double kTolerance = 1e-12;  // some roundings at 1e-16

// A mixer with eight rows of either kind; units do not link each other.
MixerEntry InnerEntry(bool has_slots) {
  MixerEntry entry;
  entry.create = [has_slots](const Value&, const std::string&, const MixerContext& context,
                             const ParameterScope& scope) -> std::unique_ptr<Mixer> {
    MatrixLayout layout{.num_heads = kHeads, .qk_heads = kHeads};
    layout.head_k_dim = layout.head_v_dim = kRows;
    layout.gate_columns = {kHeads * kRows};
    const auto gates = [](const std::vector<at::Tensor>& columns, const MixerOptions&,
                          kernels::RecurrenceArgs& args) {
      args.log_decay = at::log_sigmoid(columns[0]).unflatten(-1, {kHeads, kRows});
    };
    MatrixCore core =
        has_slots ? SlotMemory({kHeads, kRows, kRows, kRows, 1}) : OneState(kernels::Gla, layout);
    return std::make_unique<MatrixStateMixer>(layout, gates, std::move(core), context, scope);
  };
  entry.resolve = [](const Value& config, const std::string&, const MixerRegistry&) {
    return config;
  };
  return entry;
}

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  const auto registration = [](MixerRegistry& registry) {
    Register(registry);
    registry.Add("gla", InnerEntry(/*has_slots=*/false));
    registry.Add("gsa", InnerEntry(/*has_slots=*/true));
  };
  config.try_emplace("name", "row_sparse");
  return testing::MakeMixer(registration, std::move(config), {.d_model = kModelDim},
                            ParameterScope(parameters));
}

TEST_CASE("row sparse: a token changes as many rows as it may, and no other") {
  const at::NoGradGuard no_grad;
  for (const char* inner : {"gla", "gsa"}) {
    CAPTURE(inner);
    ParameterSet parameters = NewParameters();
    const auto mixer = Make({{"inner", Object{{"name", inner}}}, {"num_rows", 3}}, parameters);
    const auto before =
        Forward(*mixer, {RandomNormal({2, 5, kModelDim}, 1)}, {.want_final_state = true});
    TapRecorder recorder;
    const auto after = Forward(*mixer, {RandomNormal({2, 1, kModelDim}, 2)},
                               {.initial_state = &before.final_state,
                                .want_final_state = true,
                                .taps = TapScope(recorder)});
    const at::Tensor chosen = recorder.records.at("router").select(1, 0);  // [B,H,N]
    CHECK(chosen.sum(-1).eq(3).all().item<bool>());
    const char* const name = std::string(inner) == "gla" ? "state" : "values";
    const at::Tensor changed =
        (after.final_state.tensors.at(name).value != before.final_state.tensors.at(name).value)
            .any(-1);  // [B,H,N]
    CHECK(changed.equal(chosen.to(at::kBool)));
    CHECK(recorder.records.at("log_decay")
              .select(1, 0)
              .masked_select(chosen == 0)
              .eq(0)
              .all()
              .item<bool>());
  }
}

TEST_CASE("row sparse: with all rows and their keys it is the inner mixer") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({2, 9, kModelDim}, 1);
  ParameterSet plain = NewParameters(), wrapped = NewParameters();
  const auto inner = Make({{"name", "gla"}}, plain);
  const auto mixer = Make({{"num_rows", kRows}, {"writes", "as_is"}}, wrapped);
  CHECK(RelativeError(Forward(*mixer, {x}).y, Forward(*inner, {x}).y) < kTolerance);
}

TEST_CASE("row sparse: of equal rows the first are chosen") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);  // a quarter of 8
  TapRecorder recorder;
  Forward(*mixer, {at::zeros({1, 2, kModelDim}, at::kDouble)}, {.taps = TapScope(recorder)});
  const at::Tensor chosen = recorder.records.at("router");
  CHECK(chosen.narrow(-1, 0, 2).eq(1).all().item<bool>());
  CHECK(chosen.narrow(-1, 2, 6).eq(0).all().item<bool>());
}

TEST_CASE("row sparse: by magnitude, keys far below zero are chosen too") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({1, 4, kModelDim}, 1);
  const auto chosen = [&](const at::Tensor& input, bool by_magnitude) {
    ParameterSet parameters = NewParameters();
    const auto mixer = Make({{"writes", "as_is"}, {"by_magnitude", by_magnitude}}, parameters);
    TapRecorder recorder;
    Forward(*mixer, {input}, {.taps = TapScope(recorder)});
    return recorder.records.at("router");
  };
  // Keys are linear in x.
  CHECK(chosen(-x, true).equal(chosen(x, true)));
  CHECK_FALSE(chosen(-x, false).equal(chosen(x, false)));
  ParameterSet parameters = NewParameters();
  CHECK_THROWS_WITH(Make({{"by_magnitude", true}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/by_magnitude: "));
}

TEST_CASE("row sparse: the loss is the balance of choices and writes, with gradients of writes") {
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({{"num_rows", 2}}, parameters);
  CHECK(mixer->traits().losses == std::map<std::string, double>{{"row_balance", 0.01}});
  CHECK(mixer->traits().discrete);
  // Two rows of eight take everything, each half: 8/2 (1 * 0.5 + 1 * 0.5).
  const auto same = Forward(*mixer, {at::zeros({1, 2, kModelDim}, at::kDouble)});
  CHECK(RelativeError(same.losses.at("row_balance"), at::full({}, 4., at::kDouble)) < 1e-6);
  const auto spread = Forward(*mixer, {RandomNormal({8, 64, kModelDim}, 1)});
  const double loss = spread.losses.at("row_balance").item<double>();
  CHECK(loss > 0.99);
  CHECK(loss < 1.5);
  spread.losses.at("row_balance").backward();
  CHECK(parameters.parameters()[0].tensor.grad().abs().sum().item<double>() > 0);
}

TEST_CASE("row sparse: what it cannot hold is an error that names it") {
  ParameterSet parameters = NewParameters();
  CHECK_THROWS_WITH(Make({{"inner", Object{{"name", "attention"}}}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/inner: "));
  CHECK_THROWS_WITH(Make({{"num_rows", 9}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/num_rows: "));
  ParameterSet others = NewParameters();
  CHECK_THROWS_WITH(Make({{"inner", Object{{"name", "gsa"}}}, {"writes", "softmax"}}, others),
                    Catch::Matchers::StartsWith("/mixer/writes: "));
}

}  // namespace
}  // namespace mixerbench::models::row_sparse
