// SPDX-License-Identifier: Apache-2.0
#include "tasks/selective_copying/selective_copying.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/drawn_guesses.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::selective_copying {
namespace {

// Data tokens of the prefix in order, with their positions.
std::vector<std::pair<std::int64_t, std::int32_t>> DataTokens(std::span<const std::int32_t> inputs,
                                                              std::int64_t prefix_len) {
  std::vector<std::pair<std::int64_t, std::int32_t>> found;
  for (std::int64_t t = 0; t < prefix_len; ++t) {
    const std::int32_t token = inputs[static_cast<std::size_t>(t)];
    if (token != 0) found.emplace_back(t, token);
  }
  return found;
}

class SelectiveCopyingTask final : public SampledTask<SelectiveCopyingSampler> {
 public:
  explicit SelectiveCopyingTask(const SelectiveCopyingParams& params)
      : SampledTask({.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
                     .num_tokens = static_cast<std::uint32_t>(params.num_tokens_to_copy),
                     .prefix_len = static_cast<std::uint32_t>(params.prefix_len),
                     .is_variable = params.variable,
                     .is_reversed = params.reverse}),
        params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.vocab_size,
            .seq_len = sampler().seq_len(),
            .max_num_scored = params_.num_tokens_to_copy,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("selective_copying")
        .Integer("M", params_.num_tokens_to_copy)
        .Integer("alphabet", params_.vocab_size)
        .Integer("prefix", params_.prefix_len)
        .Flag("reverse", params_.reverse)
        .Flag("variable", params_.variable)
        .Text();
  }

  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    const auto data = DataTokens(inputs, params_.prefix_len);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::int64_t marker = positions[i] - params_.prefix_len;
      answers[i] = data.at(static_cast<std::size_t>(Source(marker))).second;
    }
  }

  std::vector<Baseline> baselines() const override {
    const auto is_data = [this](std::int32_t token) {
      return token != 0 && token < params_.vocab_size - 1;
    };
    return {{"uniform over data tokens", 1.0 / static_cast<double>(params_.vocab_size - 2)},
            CommonestShown(*this, "the commonest data token of the sample", is_data)};
  }

  std::vector<SliceKey> slice_keys() const override {
    return {CountSlice("target_index"), DecileSlice("distance_from_end")};
  }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    Require(std::ssize(labels) == sampler().seq_len(), "labels hold one sequence");
    const auto data = DataTokens(inputs, params_.prefix_len);
    for (std::int64_t marker = 0; marker < params_.num_tokens_to_copy; ++marker) {
      const std::int64_t position = data.at(static_cast<std::size_t>(Source(marker))).first;
      const auto row = static_cast<std::size_t>(2 * marker);
      buckets[row] = CountBucket(marker);
      buckets[row + 1] = DecileBucket(params_.prefix_len - 1 - position, params_.prefix_len);
    }
  }

 private:
  // Which data token a marker asks for.
  std::int64_t Source(std::int64_t marker) const {
    return params_.reverse ? params_.num_tokens_to_copy - 1 - marker : marker;
  }

  SelectiveCopyingParams params_;
};

std::vector<Preset> Presets() {
  const auto params = [](const SelectiveCopyingParams& p) {
    return SelectiveCopyingFields().Write(p);
  };
  constexpr std::int64_t kOnline = 0;
  return {
      {.name = "selcopy/selectlti",
       .params = params({}),
       .num_train = kOnline,
       .num_test = 1024,
       .reproduces = "SelectLTI Tab 1"},
      {.name = "selcopy/mamba",
       .params = params({}),
       .num_train = kOnline,
       .num_test = 1024,
       .reproduces = "Mamba Tab 1"},
      {.name = "selcopy/mamba_exact4096",
       .params = params({.prefix_len = 4096}),
       .num_train = kOnline,
       .num_test = 1024,
       .reproduces = "Mamba Tab 1, read literally"},
      {.name = "selcopy/small/prefix-256",
       .params = params({.prefix_len = 256}),
       .num_train = kOnline,
       .num_test = 1024,
       .reproduces = "laptop scale"},
      {.name = "selcopy/small/prefix-1024",
       .params = params({.prefix_len = 1024}),
       .num_train = kOnline,
       .num_test = 1024,
       .reproduces = "laptop scale"},
      {.name = "copy/s4",
       .params = params(
           {.vocab_size = 10, .num_tokens_to_copy = 10, .prefix_len = 110, .variable = false}),
       .num_train = kOnline,
       .num_test = 1000,
       .reproduces = "S4 copying, default"},
      {.name = "copy/s4-long",
       .params = params(
           {.vocab_size = 64, .num_tokens_to_copy = 1024, .prefix_len = 1024, .variable = false}),
       .num_train = kOnline,
       .num_test = 1000,
       .reproduces = "S4 copying, reconstruction style"},
  };
}

}  // namespace

const Fields<SelectiveCopyingParams>& SelectiveCopyingFields() {
  using Params = SelectiveCopyingParams;
  static const auto fields =
      Fields<Params>()
          .Add("vocab_size", &Params::vocab_size,
               "0 is noise, the last id the marker, the others data")
          .Add("num_tokens_to_copy", &Params::num_tokens_to_copy, "data tokens, and markers")
          .Add("prefix_len", &Params::prefix_len, "tokens before the markers")
          .Add("variable", &Params::variable,
               "data tokens at random positions; false: all at the start")
          .Add("reverse", &Params::reverse, "answers in reverse order");
  return fields;
}

void Validate(const SelectiveCopyingParams& params, const std::string& where) {
  const NamedValue num_tokens("num_tokens_to_copy", params.num_tokens_to_copy);
  const NamedValue prefix_len("prefix_len", params.prefix_len);
  const Rules rules("selective_copying", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({prefix_len, num_tokens});
  rules.Must(params.vocab_size >= 3, "vocab_size must be >= 3",
             {{"vocab_size", params.vocab_size}});
  rules.Must(params.num_tokens_to_copy >= 1, "num_tokens_to_copy must be >= 1", {num_tokens});
  rules.Must(params.prefix_len >= params.num_tokens_to_copy,
             "prefix_len must be >= num_tokens_to_copy", {prefix_len, num_tokens});
}

std::unique_ptr<Task> MakeSelectiveCopying(const SelectiveCopyingParams& params) {
  return std::make_unique<SelectiveCopyingTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "selective_copying",
      WithOptions<SelectiveCopyingParams>(
          {.summary = "remember data tokens spread over noise, repeat them in order at the end",
           .source =
               "Gu and Dao, Mamba (arXiv 2312.00752) 4.1.1; Jing et al. 2019; S4 copying data",
           .aliases = {"s4_copying", "mamba_selective_copying"},
           .presentation_params = {},
           .presets = Presets(),
           .deviations = {"Q21: variable positions reach the data set",
                          "Q42: the Mamba task code is unreleased; this is the S4 generator with "
                          "variable positions"}},
          SelectiveCopyingFields(), Validate, MakeSelectiveCopying));
}

}  // namespace mixerbench::tasks::selective_copying
