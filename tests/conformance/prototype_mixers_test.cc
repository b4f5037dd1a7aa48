// The mixer interface holds for shapes of mixers that the registry may not have yet: a wrapper that
// reads token embeddings and keeps a growing cache, a complex state with a named auxiliary loss,
// and a learner that is nonlinear from mini-batch to mini-batch.
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/blocks/holding_mixer.h"
#include "models/blocks/mixer_layers.h"
#include "tests/conformance/mixer_cases.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::conformance {
namespace {

using models::Find;
using models::Mixed;
using models::Mixer;
using models::MixerInputs;
using models::MixerOptions;
using models::MixerTraits;
using models::State;
using models::StateKind;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kDoubleTolerance = 1e-12;
constexpr std::int64_t kSeqLen = 11;
const auto kDoubles = at::TensorOptions(at::kDouble);

// y_t = inner_t + the mean of the embeddings so far.
class MeanOfEmbeddings final : public models::HoldingMixer {
 public:
  MeanOfEmbeddings(const models::MixerContext& context, const models::ParameterScope& scope) {
    Add("inner", Object{{"name", "gla"}}, "", context, scope);
  }
  MixerTraits traits() const override {
    MixerTraits traits = HoldingMixer::traits();
    traits.reads.insert("embeddings");
    return traits;
  }
  State InitialState(std::int64_t batch_size) const override {
    State state = HoldingMixer::InitialState(batch_size);
    state.tensors["memory"] = {at::zeros({batch_size, 0, kModelDim}, kDoubles), StateKind::kCache};
    return state;
  }
  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    Mixed mixed = HoldingMixer::Mix(inputs, options);
    at::Tensor memory = inputs.values.at("embeddings");
    std::int64_t first = 0;
    if (const at::Tensor old = Find(options.initial_state, "memory"); old.defined()) {
      first = old.size(1);
      memory = at::cat({old, memory}, 1);
    }
    std::vector<at::Tensor> means;
    for (std::int64_t t = first; t < memory.size(1); ++t) {
      means.push_back(memory.narrow(1, 0, t + 1).mean(1));
    }
    mixed.tokens = {{at::stack(means, 1)}};
    if (options.want_final_state) {
      mixed.final_state.tensors["memory"] = {memory, StateKind::kCache};
    }
    return mixed;
  }
  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    return OutputOf(0, mixed, options) + mixed.tokens[0].value;
  }
};

// h_t = lambda h_{t-1} + x_t in complex numbers, y = Re h; the energy of h is a loss.
class ComplexDiagonal final : public Mixer {
 public:
  MixerTraits traits() const override { return {.losses = {{"energy", 0.25}}}; }
  State InitialState(std::int64_t batch_size) const override {
    return Hidden(at::zeros({batch_size, kModelDim}, at::TensorOptions(at::kComplexDouble)));
  }
  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const at::Tensor lambda =
        at::complex(at::full({kModelDim}, 0.6, kDoubles), at::full({kModelDim}, 0.7, kDoubles));
    const State initial = InitialState(inputs.x.size(0));
    at::Tensor h = Find(options.initial_state != nullptr ? options.initial_state : &initial, "h");
    std::vector<at::Tensor> read;
    Mixed mixed;
    for (std::int64_t t = 0; t < inputs.x.size(1); ++t) {
      h = lambda * h + inputs.x.select(1, t);
      read.push_back(at::real(h));
      mixed.AddLoss("energy", (h * h.conj()).abs().sum());
    }
    mixed.tokens = {{at::stack(read, 1)}};
    mixed.final_state = Hidden(h);
    return mixed;
  }
  at::Tensor Output(const Mixed& mixed, const MixerOptions&) const override {
    return mixed.tokens[0].value;
  }

 private:
  static State Hidden(const at::Tensor& h) { return {.tensors = {{"h", {h}}}}; }
};

// y_t = W x_t; after every kBatch tokens W <- tanh(W + their sum of x x^T).
class MiniBatchLearner final : public Mixer {
 public:
  State InitialState(std::int64_t batch_size) const override {
    const at::Tensor zeros = at::zeros({batch_size, kModelDim, kModelDim}, kDoubles);
    return Pack(zeros, zeros, 0);
  }
  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const State initial = InitialState(inputs.x.size(0));
    const State* const state = options.initial_state != nullptr ? options.initial_state : &initial;
    at::Tensor weights = Find(state, "weights");
    at::Tensor sum = Find(state, "sum");
    auto position = Find(state, "position").item<std::int64_t>();
    std::vector<at::Tensor> read;
    for (std::int64_t t = 0; t < inputs.x.size(1); ++t) {
      const at::Tensor x = inputs.x.select(1, t).unsqueeze(-1);
      read.push_back(weights.matmul(x).squeeze(-1));
      sum = sum + x.matmul(x.transpose(1, 2));
      if (++position < kBatch) continue;
      weights = at::tanh(weights + sum);
      sum = sum * 0;
      position = 0;
    }
    return {.tokens = {{at::stack(read, 1)}}, .final_state = Pack(weights, sum, position)};
  }
  at::Tensor Output(const Mixed& mixed, const MixerOptions&) const override {
    return mixed.tokens[0].value;
  }

 private:
  static constexpr std::int64_t kBatch = 4;
  static State Pack(const at::Tensor& weights, const at::Tensor& sum, std::int64_t position) {
    return {.tensors = {
                {"weights", {weights}},
                {"sum", {sum, StateKind::kPartial}},
                {"position",
                 {at::full({}, position, at::TensorOptions(at::kLong)), StateKind::kPosition}}}};
  }
};

// Each prototype under a name of its own beside all real mixers.
models::MixerRegistry RegistryOfPrototypes() {
  models::MixerRegistry registry("mixer");
  models::RegisterMixers(registry);
  using Create = decltype(models::MixerEntry::create);
  const auto add = [&](const std::string& name, Create create) {
    models::MixerEntry entry;
    entry.create = std::move(create);
    registry.Add(name, std::move(entry));
  };
  add("mean_of_embeddings",
      [](const Value&, const std::string&, const auto& context, const auto& scope)
          -> std::unique_ptr<Mixer> { return std::make_unique<MeanOfEmbeddings>(context, scope); });
  add("complex_diagonal",
      [](const auto&...) -> std::unique_ptr<Mixer> { return std::make_unique<ComplexDiagonal>(); });
  add("mini_batch_learner", [](const auto&...) -> std::unique_ptr<Mixer> {
    return std::make_unique<MiniBatchLearner>();
  });
  return registry;
}

struct Prototype {
  models::MixerRegistry registry = RegistryOfPrototypes();
  models::ParameterSet parameters{1, models::InitPolicy::kDefault, 1, at::kCPU, at::kDouble};
  std::unique_ptr<Mixer> mixer;

  explicit Prototype(const std::string& name) {
    mixer = models::CreateMixer(Object{{"name", name}}, "/mixer",
                                {.d_model = kModelDim,
                                 .max_seq_len = kSeqLen,
                                 .registry = &registry,
                                 .offered = {"embeddings"}},
                                models::ParameterScope(parameters));
  }
};

MixerInputs Piece(std::int64_t first, std::int64_t length) {
  const at::Tensor x = RandomNormal({2, kSeqLen, kModelDim}, 1);
  const at::Tensor embeddings = RandomNormal({2, kSeqLen, kModelDim}, 2);
  return {.x = x.narrow(1, first, length),
          .values = {{"embeddings", embeddings.narrow(1, first, length)}}};
}

const std::string kPrototypes[] = {"mean_of_embeddings", "complex_diagonal", "mini_batch_learner"};

TEST_CASE("prototypes: in pieces and token by token as in one call") {
  for (const std::string& name : kPrototypes) {
    CAPTURE(name);
    const Prototype prototype(name);
    const at::Tensor whole = models::Forward(*prototype.mixer, Piece(0, kSeqLen)).y;
    for (const std::vector<std::int64_t>& pieces :
         std::vector<std::vector<std::int64_t>>{{3, 8}, {1, 5, 5}, {4, 4, 3}}) {
      State state = prototype.mixer->InitialState(2);
      std::vector<at::Tensor> outputs;
      std::int64_t first = 0;
      for (const std::int64_t length : pieces) {
        models::MixerResult result =
            models::Forward(*prototype.mixer, Piece(first, length),
                            {.initial_state = &state, .want_final_state = true});
        outputs.push_back(result.y);
        state = std::move(result.final_state);
        first += length;
      }
      CHECK(RelativeError(at::cat(outputs, 1), whole) < kDoubleTolerance);
    }
    State state = prototype.mixer->InitialState(2);
    std::vector<at::Tensor> steps;
    for (std::int64_t t = 0; t < kSeqLen; ++t) {
      steps.push_back(models::Step(*prototype.mixer, Piece(t, 1), state));
    }
    CHECK(RelativeError(at::stack(steps, 1), whole) < kDoubleTolerance);
  }
}

TEST_CASE("prototypes: the outputs of selected tokens are those of all, gathered") {
  const at::Tensor rows = at::tensor({1, 4, 13, 21}, at::kLong);
  at::Tensor entries = at::full({2 * kSeqLen}, 4, at::kLong);
  for (std::int64_t i = 0; i < 4; ++i) entries[rows[i]] = i;
  const models::ScoredPositions selection{rows, entries, 2};
  for (const std::string& name : kPrototypes) {
    CAPTURE(name);
    const Prototype prototype(name);
    const at::Tensor all = models::Forward(*prototype.mixer, Piece(0, kSeqLen)).y;
    CHECK(RelativeError(
              models::Forward(*prototype.mixer, Piece(0, kSeqLen), {.scored = &selection}).y,
              all.flatten(0, 1).index_select(0, rows)) < kDoubleTolerance);
  }
}

TEST_CASE("prototypes: states are counted by their kinds and measured in bytes") {
  const Prototype wrapper("mean_of_embeddings");
  const State state = wrapper.mixer->InitialState(1);
  const std::int64_t matrix = models::SizeOf(state).recurrent;
  CHECK(models::SizeOf(state, 7).recurrent == matrix + 7 * kModelDim);
  const Prototype complex("complex_diagonal");
  CHECK(models::SizeOf(complex.mixer->InitialState(1)).recurrent == 2 * kModelDim);
  CHECK(models::BytesOf(complex.mixer->InitialState(1)) == 16 * kModelDim);
  const Prototype learner("mini_batch_learner");  // what is partial counts in bytes alone
  CHECK(models::SizeOf(learner.mixer->InitialState(1)).recurrent == kModelDim * kModelDim);
  CHECK(models::BytesOf(learner.mixer->InitialState(1)) == 8 * (2 * kModelDim * kModelDim + 1));
}

TEST_CASE("prototypes: what is read must be offered") {
  const models::MixerRegistry registry = RegistryOfPrototypes();
  models::ParameterSet parameters(1, models::InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(models::CreateMixer(Object{{"name", "mean_of_embeddings"}}, "/mixer",
                                        {.d_model = kModelDim, .registry = &registry},
                                        models::ParameterScope(parameters)),
                    "/mixer/name: 'mean_of_embeddings' reads 'embeddings', which nothing before "
                    "this layer offers");
}

TEST_CASE("prototypes: layers hand embeddings on and add up named losses") {
  const models::MixerRegistry registry = RegistryOfPrototypes();
  models::ParameterSet parameters(1, models::InitPolicy::kDefault, 2, at::kCPU, at::kDouble);
  const Value pattern = Object{{"name", "hybrid"},
                               {"pattern", Array{Object{{"name", "mean_of_embeddings"}},
                                                 Object{{"name", "complex_diagonal"}}}}};
  const models::MixerLayers layers(
      pattern, "/m", {.vocab_size = 5, .max_seq_len = kSeqLen, .mixers = &registry}, kModelDim,
      /*num_layers=*/4, parameters);
  CHECK(layers.losses() == std::map<std::string, double>{{"energy", 0.25}});
  const MixerInputs inputs = Piece(0, kSeqLen);
  const models::BackboneOptions options{.compute_dtype = at::kDouble, .want_final_state = true};
  models::BackboneOutput output;
  models::MixerLayers::Pass pass(layers, options, inputs.values.at("embeddings"), output);
  at::Tensor x = inputs.x;
  at::Tensor energy = at::zeros({}, kDoubles);
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    if (layer % 2 == 1) {
      energy = energy + models::Forward(ComplexDiagonal(), {x}).losses.at("energy");
    }
    x = pass.Next(x);
  }
  CHECK(RelativeError(output.losses.at("energy"), energy) < kDoubleTolerance);
  CHECK(output.final_state.inner.size() == 4);
  CHECK(Find(models::Inner(&output.final_state, "layers.2"), "memory").size(1) == kSeqLen);
}

}  // namespace
}  // namespace mixerbench::conformance
