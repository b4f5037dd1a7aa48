// SPDX-License-Identifier: Apache-2.0
#include "tasks/group_word/group_word.h"

#include <vector>

#include "tasks/canon.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::group_word {
namespace {

class GroupWordTask final : public SampledTask<GroupWordSampler> {
 public:
  GroupWordTask(const GroupWordParams& params, GroupTables group)
      : SampledTask({.group = group.group,
                     .order = group.group.order(),
                     .input_seq_len = static_cast<std::uint32_t>(params.input_seq_len)},
                    std::move(group.tables)),
        params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = sampler().order,
            .seq_len = params_.input_seq_len,
            .max_num_scored = params_.input_seq_len,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("group_word")
        .Integer("L", params_.input_seq_len)
        .Word("group", params_.group)
        .Text();
  }

  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    std::vector<std::int32_t> products;
    GroupElement product = sampler().group.Identity();
    for (const std::int32_t id : inputs) {
      product = sampler().group.Then(
          product, sampler().group.ElementOf(static_cast<std::uint32_t>(id), tables().data()));
      products.push_back(static_cast<std::int32_t>(sampler().group.IdOf(product, tables().data())));
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      answers[i] = products[static_cast<std::size_t>(positions[i])];
    }
  }

  std::vector<Baseline> baselines() const override {
    return {{"uniform over elements", 1.0 / static_cast<double>(sampler().order)}};
  }

  std::vector<SliceKey> slice_keys() const override { return EveryPositionSlices(); }

  void AssignSlices(std::span<const std::int32_t>, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    AssignEveryPosition(labels.size(), buckets);
  }

 private:
  GroupWordParams params_;
};

std::vector<Preset> Presets() {
  constexpr std::int64_t kNumTrain = 100000, kNumTest = 2000;
  const auto mixture = [](std::string name, const std::string& group,
                          const std::vector<std::int64_t>& train_lengths,
                          const std::vector<std::int64_t>& test_lengths, std::string reproduces) {
    const auto params = [&group](std::int64_t input_seq_len) {
      return GroupWordFields().Write({group, input_seq_len});
    };
    return MixturePreset(std::move(name), EachSegment(train_lengths, kNumTrain, params),
                         EachSegment(test_lengths, kNumTest, params), std::move(reproduces));
  };
  std::vector<std::int64_t> published;
  for (std::int64_t length = 2; length <= 20; ++length) published.push_back(length);
  std::vector<Preset> presets;
  for (const auto& [name, group] :
       {std::pair{"group/a5", "A5"}, std::pair{"group/s5", "S5"}, std::pair{"group/z60", "Z60"},
        std::pair{"group/a4xz5", "A4xZ5"}}) {
    presets.push_back(mixture(name, group, published, published, "Merrill et al. 2024"));
  }
  presets.push_back(mixture("group/s5-extrap", "S5", {32}, {32, 64, 128, 256, 512},
                            "longer inputs than trained on"));
  return presets;
}

}  // namespace

const Fields<GroupWordParams>& GroupWordFields() {
  static const auto fields =
      Fields<GroupWordParams>()
          .Add("group", &GroupWordParams::group,
               "S<n> or A<n> with n <= 7, Z<n>, or a product of up to three such as A4xZ5")
          .Add("input_seq_len", &GroupWordParams::input_seq_len, "elements of one sample");
  return fields;
}

void Validate(const GroupWordParams& params, const std::string& where) {
  Rules("group_word", where).SequenceLength({{"input_seq_len", params.input_seq_len}});
  ParseGroup(params.group, where);
}

std::unique_ptr<Task> MakeGroupWord(const GroupWordParams& params) {
  return std::make_unique<GroupWordTask>(params, ParseGroup(params.group, ""));
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "group_word",
      WithOptions<GroupWordParams>(
          {.summary = "the product of all group elements so far, at every element",
           .source =
               "Merrill, Petty and Sabharwal, The Illusion of State, ICML 2024 (arXiv 2404.08819)",
           .aliases = {"word_problem", "state_tracking"},
           .presentation_params = {},
           .presets = Presets(),
           .deviations = {"Q24: seeds are fixed and samples are not deduplicated"}},
          GroupWordFields(), Validate, MakeGroupWord));
}

}  // namespace mixerbench::tasks::group_word
