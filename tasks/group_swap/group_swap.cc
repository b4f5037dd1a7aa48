// SPDX-License-Identifier: Apache-2.0
#include "tasks/group_swap/group_swap.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::group_swap {
namespace {

class GroupSwapTask final : public SampledTask<GroupSwapSampler> {
 public:
  explicit GroupSwapTask(const GroupSwapParams& params)
      : SampledTask({.num_points = static_cast<std::uint32_t>(params.num_points),
                     .input_seq_len = static_cast<std::uint32_t>(params.input_seq_len)}),
        params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = std::max<std::int64_t>(sampler().num_swaps(), params_.num_points),
            .seq_len = params_.input_seq_len,
            .max_num_scored = params_.input_seq_len,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("group_swap")
        .Integer("L", params_.input_seq_len)
        .Integer("n", params_.num_points)
        .Text();
  }

  // Follows point 0 alone.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    std::vector<std::pair<std::int32_t, std::int32_t>> swaps;
    for (std::int32_t a = 0; a < params_.num_points; ++a) {
      for (std::int32_t b = a + 1; b < params_.num_points; ++b) swaps.emplace_back(a, b);
    }
    std::vector<std::int32_t> places;
    std::int32_t place = 0;
    for (const std::int32_t token : inputs) {
      const auto [a, b] = swaps.at(static_cast<std::size_t>(token));
      place = place == a ? b : place == b ? a : place;
      places.push_back(place);
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      answers[i] = places[static_cast<std::size_t>(positions[i])];
    }
  }

  std::vector<Baseline> baselines() const override {
    const double n = static_cast<double>(params_.num_points);
    double power = 1;  // (1 - 2 / (n - 1))^t
    std::vector<double> accuracies;
    for (std::int64_t t = 0; t < params_.input_seq_len; ++t) {
      power *= 1 - 2 / (n - 1);
      const double at_start = 1 / n + (1 - 1 / n) * power;
      accuracies.push_back(std::max(at_start, (1 - at_start) / (n - 1)));
    }
    const double sum = std::accumulate(accuracies.begin(), accuracies.end(), 0.0);
    return {{.name = "the commonest place after each token",
             .accuracy = sum / static_cast<double>(params_.input_seq_len),
             .knows_position = true,
             .accuracy_at =
                 [accuracies](std::int64_t position, std::int32_t) {
                   return accuracies[static_cast<std::size_t>(position)];
                 }},
            {"uniform over places", 1 / n}};
  }

  std::vector<SliceKey> slice_keys() const override { return EveryPositionSlices(); }

  void AssignSlices(std::span<const std::int32_t>, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    AssignEveryPosition(labels.size(), buckets);
  }

 private:
  GroupSwapParams params_;
};

std::vector<Preset> Presets() {
  constexpr std::int64_t kNumTrain = 100000, kNumTest = 2000;
  const auto params = [](std::int64_t length) {
    return GroupSwapFields().Write({.input_seq_len = length});
  };
  return {MixturePreset("group/swap5", EachSegment({32}, kNumTrain, params),
                        EachSegment({32, 64, 128, 256, 512}, kNumTest, params),
                        "Merrill et al. 2024, swaps alone; longer inputs than trained on")};
}

}  // namespace

const Fields<GroupSwapParams>& GroupSwapFields() {
  static const auto fields =
      Fields<GroupSwapParams>()
          .Add("num_points", &GroupSwapParams::num_points, "places that are swapped, 3 to 7")
          .Add("input_seq_len", &GroupSwapParams::input_seq_len, "swaps of one sample");
  return fields;
}

void Validate(const GroupSwapParams& params, const std::string& where) {
  const Rules rules("group_swap", where);
  rules.SequenceLength({{"input_seq_len", params.input_seq_len}});
  // Of two points there is one swap, and nothing to follow.
  rules.Must(params.num_points >= 3 && params.num_points <= kMaxPoints,
             "num_points must be in [3, 7]", {{"num_points", params.num_points}});
}

std::unique_ptr<Task> MakeGroupSwap(const GroupSwapParams& params) {
  return std::make_unique<GroupSwapTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "group_swap",
      WithOptions<GroupSwapParams>(
          {.summary = "where one of several places has gone after every swap of two of them",
           .source =
               "Merrill, Petty and Sabharwal, The Illusion of State, ICML 2024 (arXiv 2404.08819)",
           .aliases = {"swap_tracking"},
           .presentation_params = {},
           .presets = Presets(),
           .deviations = {"Q24: seeds are fixed and samples are not deduplicated"}},
          GroupSwapFields(), Validate, MakeGroupSwap));
}

}  // namespace mixerbench::tasks::group_swap
