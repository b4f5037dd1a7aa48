// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "base/error.h"
#include "tests/accuracy/cases.h"
#include "tests/accuracy/covering.h"
#include "tests/accuracy/growth.h"
#include "tests/support/tensors.h"

namespace mixerbench::accuracy {
namespace {

using kernels::ScoredPositions;
using models::MixerEntry;
using models::MixerRegistry;

constexpr std::uint64_t kParameterSeed = 7;
constexpr std::uint64_t kInputSeed = 11;
constexpr std::uint64_t kPrefixSeed = 13;
constexpr std::int64_t kPrefixTokens = 5;  // that leave the initial state

// What is asked for. Scored positions come with lists that are sorted, one stretch a sequence, or
// in no order.
enum class Wanted { kOutputsAndState, kOutputs, kScored, kScoredUnordered };
constexpr std::array kWanted = {
    std::pair{Wanted::kOutputsAndState, "outputs, state"}, std::pair{Wanted::kOutputs, "outputs"},
    std::pair{Wanted::kScored, "scored"}, std::pair{Wanted::kScoredUnordered, "scored, no order"}};

struct MixerPoint {
  Value config;  // options without "name"
  std::int64_t d_model = 0;
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  Wanted wanted = Wanted::kOutputs;
  bool initial_state = false;
};

// Positions b, t of a row selection and where it is real.
struct Scored {
  ScoredPositions selection;
  at::Tensor real;  // entries that are positions, not padding
  at::Tensor mask;  // [B,T,1], 1 where scored
};

// Some positions of `batch_size` sequences from number `first_sequence` on, the same in whatever
// pieces a batch comes; of every third one less, so that an entry is padding.
Scored ChooseScored(std::int64_t first_sequence, std::int64_t batch_size, std::int64_t seq_len,
                    bool ordered, at::Device device) {
  constexpr std::int64_t kMostScored = 64;
  const std::int64_t count = std::clamp<std::int64_t>(seq_len / 5, 1, kMostScored);
  const std::int64_t stride = seq_len / count;
  const auto num_rows = static_cast<std::size_t>(batch_size * count);
  const auto num_tokens = static_cast<std::size_t>(batch_size * seq_len);
  std::vector<std::int64_t> rows(num_rows, 0);
  std::vector<std::int64_t> entries(num_tokens, static_cast<std::int64_t>(num_rows));
  std::vector<std::int64_t> real;
  for (std::int64_t i = 0; i < batch_size * count; ++i) {
    const std::int64_t b = first_sequence + i / count;
    const std::int64_t j = i % count;
    if (b % 3 == 2 && j + 1 == count && count > 1) continue;
    const std::int64_t token = i / count * seq_len + j * stride + (31 * b + 17 * j) % stride;
    const std::int64_t entry = ordered ? i : batch_size * count - 1 - i;
    rows[static_cast<std::size_t>(entry)] = token;
    entries[static_cast<std::size_t>(token)] = entry;
    real.push_back(entry);
  }
  Scored scored;
  scored.selection = {.positions = at::tensor(rows, at::kLong).to(device),
                      .inverse = at::tensor(entries, at::kLong).to(device),
                      .per_sequence = ordered ? count : 0};
  scored.real = at::tensor(real, at::kLong).to(device);
  scored.mask = (scored.selection.inverse < static_cast<std::int64_t>(num_rows))
                    .view({batch_size, seq_len, 1});
  return scored;
}

// A mixer with the weights of one draw.
class Model {
 public:
  Model(const MixerRegistry& mixers, const MixerEntry& entry, const MixerPoint& point,
        at::Device device, at::ScalarType dtype)
      : parameters_(kParameterSeed, models::InitPolicy::kDefault, /*num_layers=*/2, device, dtype),
        mixer_(entry.create(point.config, "",
                            {.d_model = point.d_model,
                             .layer_index = 0,
                             .num_layers = 2,
                             .max_seq_len = kPrefixTokens + point.seq_len,
                             .registry = &mixers,
                             .offered = {"embeddings", "previous_output"}},
                            models::ParameterScope(parameters_))) {}

  const models::Mixer& mixer() const { return *mixer_; }
  const std::vector<models::Parameter>& parameters() const { return parameters_.parameters(); }

 private:
  models::ParameterSet parameters_;
  std::unique_ptr<models::Mixer> mixer_;
};

class MixerSubject final : public Subject {
 public:
  MixerSubject(const MixerRegistry& mixers, const MixerEntry& entry, const MixerPoint& point,
               at::Device device)
      : point_(point),
        rounded_(mixers, entry, point, device, at::kFloat),
        exact_(mixers, entry, point, device, at::kDouble) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < exact_.parameters().size(); ++i) {
      exact_.parameters()[i].tensor.copy_(rounded_.parameters()[i].tensor);
    }
    const at::Tensor prefix =
        Draw({point.batch_size, kPrefixTokens, point.d_model}, kPrefixSeed, device);
    inputs_["x"] = Draw({point.batch_size, point.seq_len, point.d_model}, kInputSeed, device);
    for (const std::string& name : exact_.mixer().traits().reads) {
      inputs_[name] = inputs_.at("x").flip(1);
    }
    if (!point.initial_state) return;
    state_ = StateAfter(prefix);
    models::ForEach(std::as_const(*state_), [&](const auto& name, const auto& tensor) {
      if (!IsNumber(tensor.value)) return;
      inputs_[StateName(name)] = Parts(tensor.value).to(at::kBFloat16).to(at::kDouble);
    });
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const models::State state = StateAfter(prefix.narrow(0, 0, 1).to(dtype));
      models::ForEach(state, [&](const auto& name, const auto& tensor) {
        state_types_[dtype][StateName(name)] = c10::toRealValueType(tensor.value.scalar_type());
      });
    }
  }

  const NamedTensors& inputs() const override { return inputs_; }

  at::ScalarType InputType(const std::string& name, at::ScalarType dtype) const override {
    return dtype == at::kDouble || !name.starts_with(StateName(""))
               ? dtype
               : state_types_.at(dtype).at(name);
  }

  std::vector<std::pair<std::string, at::Tensor>> Parameters(at::ScalarType dtype) const override {
    std::vector<std::pair<std::string, at::Tensor>> named;
    for (const auto& parameter : ModelFor(dtype).parameters()) {
      named.emplace_back(parameter.name, parameter.tensor);
    }
    return named;
  }

  NamedTensors Run(const NamedTensors& inputs, std::int64_t first_sequence, ExecutionPath path,
                   at::ScalarType dtype) const override {
    const models::MixerInputs mixer_inputs = InputsOf(inputs);
    models::State state = StateOf(inputs);
    models::MixerOptions options;
    options.path = path;
    options.want_final_state = point_.wanted == Wanted::kOutputsAndState;
    if (state_) options.initial_state = &state;
    const auto scored = ScoredOf(mixer_inputs.x, first_sequence);
    if (scored && path == ExecutionPath::kFast) options.scored = &scored->selection;
    const auto result = models::Forward(ModelFor(dtype).mixer(), mixer_inputs, options);

    NamedTensors outputs;
    outputs["y"] = scored ? AtScored(*scored, result.y, mixer_inputs.x.size(0)) : result.y;
    models::ForEach(result.final_state, [&](const auto& name, const auto& tensor) {
      if (IsNumber(tensor.value)) outputs["final " + name] = Parts(tensor.value);
    });
    return outputs;
  }

  double LargestState(const NamedTensors& inputs) const override {
    const models::State state = StateOf(inputs);
    models::MixerOptions options;
    options.path = ExecutionPath::kFast;
    options.want_final_state = true;
    if (state_) options.initial_state = &state;
    double largest = 0;
    const auto result = models::Forward(exact_.mixer(), InputsOf(inputs), options);
    models::ForEach(result.final_state, [&](const auto&, const auto& tensor) {
      if (!IsNumber(tensor.value) || tensor.value.numel() == 0) return;
      largest = std::max(largest, tensor.value.abs().max().template item<double>());
    });
    return largest;
  }

 private:
  static bool IsNumber(const at::Tensor& x) { return x.is_floating_point() || x.is_complex(); }

  // Complex numbers as pairs of real ones.
  static at::Tensor Parts(const at::Tensor& x) { return x.is_complex() ? at::view_as_real(x) : x; }

  static std::string StateName(const std::string& name) { return "initial " + name; }

  static at::Tensor Draw(at::IntArrayRef sizes, std::uint64_t seed, at::Device device) {
    return testing::RandomNormal(sizes, seed, at::kBFloat16, device).to(at::kDouble);
  }

  const Model& ModelFor(at::ScalarType dtype) const {
    return dtype == at::kDouble ? exact_ : rounded_;
  }

  models::MixerInputs InputsOf(const NamedTensors& inputs) const {
    models::MixerInputs mixer_inputs{.x = inputs.at("x")};
    for (const std::string& name : exact_.mixer().traits().reads) {
      mixer_inputs.values[name] = inputs.at(name);
    }
    return mixer_inputs;
  }

  models::State StateOf(const NamedTensors& inputs) const {
    models::State state = state_.value_or(models::State{});
    models::ForEach(state, [&](const std::string& name, models::StateTensor& tensor) {
      const auto leaf = inputs.find(StateName(name));
      if (leaf == inputs.end()) return;
      tensor.value =
          tensor.value.is_complex() ? at::view_as_complex(leaf->second.contiguous()) : leaf->second;
    });
    return state;
  }

  models::State StateAfter(const at::Tensor& x) const {
    const auto dtype = x.scalar_type();
    models::MixerInputs inputs{.x = x};
    for (const std::string& name : exact_.mixer().traits().reads) inputs.values[name] = x;
    models::MixerOptions options;
    options.path = dtype == at::kDouble ? ExecutionPath::kReference : ExecutionPath::kFast;
    options.want_final_state = true;
    return models::Forward(ModelFor(dtype).mixer(), inputs, options).final_state;
  }

  // The positions that are asked for of the sequences x [b,T,D], if not all are.
  std::optional<Scored> ScoredOf(const at::Tensor& x, std::int64_t first_sequence) const {
    const bool ordered = point_.wanted == Wanted::kScored;
    if (!ordered && point_.wanted != Wanted::kScoredUnordered) return std::nullopt;
    return ChooseScored(first_sequence, x.size(0), point_.seq_len, ordered, x.device());
  }

  // y [b,T,D], or [M,D] of the scored positions, as [b,T,D] that is zero elsewhere.
  at::Tensor AtScored(const Scored& scored, const at::Tensor& y, std::int64_t num_sequences) const {
    if (y.dim() == 3) return y * scored.mask;
    const at::Tensor tokens = scored.selection.positions.index_select(0, scored.real);
    return at::zeros({num_sequences * point_.seq_len, y.size(1)}, y.options())
        .index_copy(0, tokens, y.index_select(0, scored.real))
        .view({num_sequences, point_.seq_len, y.size(1)});
  }

  MixerPoint point_;
  Model rounded_;
  Model exact_;
  std::optional<models::State> state_;  // its names, kinds and what has no gradient
  NamedTensors inputs_;
  std::map<at::ScalarType, std::map<std::string, at::ScalarType>> state_types_;
};

enum Factor {
  kOptions,
  kHeads,
  kModelDim,
  kRivals,
  kSeqLen,
  kWantedFactor,
  kInitialState,
  kNumFactors
};

template <typename T>
const T& At(const std::vector<T>& values, int index) {
  return values[static_cast<std::size_t>(index)];
}

// The factors of one mixer.
class MixerFactors {
 public:
  MixerFactors(const MixerRegistry& mixers, const MixerEntry& entry, const Sizes& sizes)
      : mixers_(mixers), entry_(entry), sizes_(sizes), options_{Object{}} {
    options_.insert(options_.end(), entry.test_configs.begin(), entry.test_configs.end());
    has_heads_ = std::any_of(entry.params.begin(), entry.params.end(),
                             [](const FieldInfo& field) { return field.name == "num_heads"; });
  }

  std::vector<Levels> Cover() {
    const auto count = [](const auto& levels) { return static_cast<int>(levels.size()); };
    CoveringProblem problem;
    problem.num_levels = {count(options_),
                          has_heads_ ? count(sizes_.num_heads) : 1,
                          count(sizes_.d_model),
                          count(sizes_.num_rivals),
                          count(sizes_.seq_len),
                          static_cast<int>(kWanted.size()),
                          2};
    problem.interactions = AllPairs(kNumFactors);
    problem.interactions.push_back({kHeads, kModelDim, kRivals});
    problem.allowed = [this](const Levels& levels) {
      return NumElements(levels) <= static_cast<double>(sizes_.max_elements) && IsLegal(levels) &&
             Refusal(levels).empty();
    };
    problem.cost = [this](const Levels& levels) {
      return Cost(Operations(levels), NumElements(levels));
    };
    return accuracy::Cover(problem);
  }

  // One row for each length that the options refuse.
  std::vector<Levels> LeftOut() {
    std::vector<Levels> left_out;
    for (int options = 0; options < static_cast<int>(options_.size()); ++options) {
      for (int seq_len = 0; seq_len < static_cast<int>(sizes_.seq_len.size()); ++seq_len) {
        Levels levels(kNumFactors, 0);
        levels[kOptions] = options;
        levels[kSeqLen] = seq_len;
        if (!Refusal(levels).empty()) left_out.push_back(levels);
      }
    }
    return left_out;
  }

  std::string Refusal(const Levels& levels) {
    return GrowthOf(levels).Refusal(At(sizes_.seq_len, levels[kSeqLen]), sizes_.max_operations);
  }

  double Operations(const Levels& levels) {
    return GrowthOf(levels).Operations(At(sizes_.seq_len, levels[kSeqLen]));
  }

  MixerPoint PointOf(const Levels& levels) const {
    return {.config = Config(levels),
            .d_model = At(sizes_.d_model, levels[kModelDim]),
            .batch_size = BatchSize(At(sizes_.num_rivals, levels[kRivals]), NumHeads(levels)),
            .seq_len = At(sizes_.seq_len, levels[kSeqLen]),
            .wanted = kWanted[static_cast<std::size_t>(levels[kWantedFactor])].first,
            .initial_state = levels[kInitialState] == 1};
  }

  Object Describe(const Levels& levels) const {
    const MixerPoint point = PointOf(levels);
    return {{"options", point.config},
            {"d_model", point.d_model},
            {"batch_size", point.batch_size},
            {"seq_len", point.seq_len},
            {"wanted", kWanted[static_cast<std::size_t>(levels[kWantedFactor])].second},
            {"initial_state", point.initial_state}};
  }

  // What is refused, whatever the factors besides.
  Object DescribeLeftOut(const Levels& levels) const {
    return {{"options", At(options_, levels[kOptions])},
            {"d_model", "any"},
            {"batch_size", "any"},
            {"seq_len", At(sizes_.seq_len, levels[kSeqLen])},
            {"wanted", "any"},
            {"initial_state", "any"}};
  }

 private:
  // That of the options, at the smallest sizes that they take.
  const Growth& GrowthOf(const Levels& levels) {
    const int options = levels[kOptions];
    if (const auto known = growths_.find(options); known != growths_.end()) return known->second;
    Growth& growth = growths_[options];
    if (sizes_.max_operations == 0) return growth;
    Levels smallest(kNumFactors, 0);
    smallest[kOptions] = options;
    const int num_heads = has_heads_ ? static_cast<int>(sizes_.num_heads.size()) : 1;
    for (int d_model = 0; d_model < static_cast<int>(sizes_.d_model.size()); ++d_model) {
      for (int heads = 0; heads < num_heads; ++heads) {
        smallest[kModelDim] = d_model;
        smallest[kHeads] = heads;
        if (!IsLegal(smallest)) continue;
        MixerPoint point = PointOf(smallest);
        point.batch_size = 1;
        growth = Growth([&](std::int64_t seq_len) {
          point.seq_len = seq_len;
          return std::make_unique<MixerSubject>(mixers_, entry_, point, at::kCPU);
        });
        return growth;
      }
    }
    return growth;
  }

  std::int64_t NumHeads(const Levels& levels) const {
    return has_heads_ ? At(sizes_.num_heads, levels[kHeads]) : 1;
  }

  Value Config(const Levels& levels) const {
    Value config = At(options_, levels[kOptions]);
    if (has_heads_) config.as_object()["num_heads"] = NumHeads(levels);
    return config;
  }

  double NumElements(const Levels& levels) const {
    const MixerPoint point = PointOf(levels);
    return static_cast<double>(point.batch_size * point.seq_len * point.d_model);
  }

  // Whether heads have a size that is tested and the mixer takes its options at that length.
  bool IsLegal(const Levels& levels) {
    const std::tuple key(levels[kOptions], levels[kHeads], levels[kModelDim], levels[kSeqLen]);
    if (const auto known = legal_.find(key); known != legal_.end()) return known->second;
    return legal_[key] = HasTestedHeads(levels) && CanBeMade(levels);
  }

  bool HasTestedHeads(const Levels& levels) const {
    if (!has_heads_) return true;
    const std::int64_t d_model = At(sizes_.d_model, levels[kModelDim]);
    const std::int64_t head_dim = d_model / NumHeads(levels);
    return d_model % NumHeads(levels) == 0 && head_dim >= sizes_.min_head_dim &&
           head_dim <= sizes_.max_head_dim;
  }

  bool CanBeMade(const Levels& levels) const {
    try {
      const Model model(mixers_, entry_, PointOf(levels), at::kMeta, at::kFloat);
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  }

  const MixerRegistry& mixers_;
  const MixerEntry& entry_;
  const Sizes& sizes_;
  std::vector<Value> options_;
  bool has_heads_ = false;
  std::map<std::tuple<int, int, int, int>, bool> legal_;
  std::map<int, Growth> growths_;
};

}  // namespace

std::vector<Case> MixerCases(const MixerRegistry& mixers, const std::string& name,
                             const Sizes& sizes, at::Device device) {
  const MixerEntry& entry = mixers.Find(name, "");
  MixerFactors factors(mixers, entry, sizes);
  std::vector<Case> cases;
  for (const Levels& levels : factors.Cover()) {
    cases.push_back({.unit = "mixer " + name,
                     .factors = factors.Describe(levels),
                     .make = [&mixers, &entry, point = factors.PointOf(levels),
                              device]() -> std::unique_ptr<Subject> {
                       return std::make_unique<MixerSubject>(mixers, entry, point, device);
                     },
                     .operations = factors.Operations(levels)});
  }
  for (const Levels& levels : factors.LeftOut()) {
    cases.push_back({.unit = "mixer " + name,
                     .factors = factors.DescribeLeftOut(levels),
                     .left_out = factors.Refusal(levels)});
  }
  return cases;
}

}  // namespace mixerbench::accuracy
