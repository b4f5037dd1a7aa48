// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/parallel/parallel.h"

#include <memory>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::parallel {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 4;
constexpr double kTolerance = 1e-12;

// The token before, `copies` times side by side.
class Delay final : public Mixer {
 public:
  explicit Delay(std::int64_t copies) : copies_(copies) {}
  MixerTraits traits() const override { return {.output_dim = copies_ * kModelDim}; }
  State InitialState(std::int64_t batch_size) const override {
    return Last(at::zeros({batch_size, kModelDim}, at::TensorOptions(at::kDouble)));
  }
  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const State initial = InitialState(inputs.x.size(0));
    const at::Tensor last =
        Find(options.initial_state != nullptr ? options.initial_state : &initial, "last");
    const at::Tensor all = at::cat({last.unsqueeze(1), inputs.x}, 1);
    return {.tokens = {{all.narrow(1, 0, inputs.x.size(1))}},
            .final_state = Last(all.select(1, inputs.x.size(1)))};
  }
  at::Tensor Output(const Mixed& mixed, const MixerOptions&) const override {
    const at::Tensor& x = mixed.tokens[0].value;
    return copies_ == 1 ? x : at::cat({x, x}, -1);
  }

 private:
  static State Last(const at::Tensor& last) {
    return {.tensors = {{"last", {last, StateKind::kTokenShift}}}};
  }
  std::int64_t copies_;
};

struct Made {
  MixerRegistry registry{"mixer"};
  ParameterSet parameters{1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble};
  std::unique_ptr<Mixer> mixer;

  explicit Made(Array branches) {
    Register(registry);
    for (const std::int64_t copies : {1, 2}) {
      MixerEntry entry;
      entry.create = [copies](const Value&, const std::string&, const MixerContext& context,
                              const ParameterScope&) -> std::unique_ptr<Mixer> {
        CHECK_FALSE(context.output_projection);
        return std::make_unique<Delay>(copies);
      };
      registry.Add("delay" + std::to_string(copies), std::move(entry));
    }
    mixer = CreateMixer(Object{{"name", "parallel"}, {"branches", std::move(branches)}}, "/mixer",
                        {.d_model = kModelDim, .max_seq_len = 32, .registry = &registry},
                        ParameterScope(parameters));
  }
};

const Value kNarrow = Object{{"name", "delay1"}};
const Value kWide = Object{{"name", "delay2"}};

TEST_CASE("parallel: the mean of the normalised branches, projected once") {
  const at::NoGradGuard no_grad;
  const Made made({kNarrow, kNarrow});
  REQUIRE(made.parameters.parameters().size() == 3);  // two norms, one projection
  const at::Tensor norm0 = made.parameters.parameters()[0].tensor;
  const at::Tensor norm1 = made.parameters.parameters()[1].tensor;
  norm0.fill_(3);
  norm1.fill_(5);
  const at::Tensor x = RandomNormal({2, 9, kModelDim}, 1);
  const at::Tensor delayed = at::cat({at::zeros_like(x.narrow(1, 0, 1)), x.narrow(1, 0, 8)}, 1);
  const at::Tensor normalised = delayed / (delayed.square().mean(-1, true) + 1e-5).sqrt();
  const at::Tensor expected = (4 * normalised).matmul(made.parameters.parameters()[2].tensor.t());
  CHECK(RelativeError(Forward(*made.mixer, {x}).y, expected) < kTolerance);
}

TEST_CASE("parallel: states nest under the branches and are carried on") {
  const at::NoGradGuard no_grad;
  const Made made({kNarrow, Object{{"name", "parallel"}, {"branches", Array{kNarrow, kNarrow}}}});
  const at::Tensor x = RandomNormal({2, 9, kModelDim}, 1);
  const MixerResult first = Forward(*made.mixer, {x.narrow(1, 0, 4)}, {.want_final_state = true});
  CHECK(Find(Inner(Inner(&first.final_state, "branches.1"), "branches.0"), "last")
            .equal(x.select(1, 3)));
  const MixerResult rest =
      Forward(*made.mixer, {x.narrow(1, 4, 5)}, {.initial_state = &first.final_state});
  CHECK(RelativeError(rest.y, Forward(*made.mixer, {x}).y.narrow(1, 4, 5)) < kTolerance);
}

TEST_CASE("parallel: branches of different widths are an error that names the branch") {
  CHECK_NOTHROW(Made({kWide, kWide}));
  CHECK_THROWS_WITH(Made({kNarrow, kWide}),
                    Catch::Matchers::StartsWith("/mixer/branches/1: its output has 8 channels"));
  CHECK_THROWS_WITH(Made(Array{}), Catch::Matchers::StartsWith("/mixer/branches: "));
}

}  // namespace
}  // namespace mixerbench::models::parallel
