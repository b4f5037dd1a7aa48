// SPDX-License-Identifier: Apache-2.0
#include "tasks/copying_lag/copying_lag.h"

#include <vector>

#include "tasks/canon.h"
#include "tasks/rules.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::copying_lag {
namespace {

class CopyingLagTask final : public SampledTask<CopyingLagSampler> {
 public:
  explicit CopyingLagTask(const CopyingLagParams& params)
      : SampledTask({.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
                     .input_seq_len = static_cast<std::uint32_t>(params.input_seq_len),
                     .lag = static_cast<std::uint32_t>(params.lag)}),
        params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.vocab_size,
            .seq_len = params_.input_seq_len,
            .max_num_scored = params_.input_seq_len,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("copying_lag")
        .Integer("L", params_.input_seq_len)
        .Integer("M", params_.lag)
        .Integer("alphabet", params_.vocab_size)
        .Text();
  }

  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::int64_t source = positions[i] - params_.lag;
      answers[i] = source < 0 ? 0 : inputs[static_cast<std::size_t>(source)];
    }
  }

  std::vector<Baseline> baselines() const override {
    const double data = 1.0 / static_cast<double>(params_.vocab_size - 2);
    const double zeros =
        static_cast<double>(params_.lag) / static_cast<double>(params_.input_seq_len);
    return {{.name = "zeros first, then uniform over data tokens",
             .accuracy = zeros + (1 - zeros) * data,
             .knows_position = true,
             .accuracy_at = [lag = params_.lag, data](
                                std::int64_t position,
                                std::int32_t) { return position < lag ? 1.0 : data; }},
            {"uniform over data tokens, of those alone", data}};
  }

  std::vector<SliceKey> slice_keys() const override { return {{"part", {"zeros", "data"}}}; }

  void AssignSlices(std::span<const std::int32_t>, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    for (std::size_t t = 0; t < labels.size(); ++t) {
      buckets[t] = static_cast<std::int64_t>(t) < params_.lag ? 0 : 1;
    }
  }

 private:
  CopyingLagParams params_;
};

}  // namespace

const Fields<CopyingLagParams>& CopyingLagFields() {
  using Params = CopyingLagParams;
  static const auto fields =
      Fields<Params>()
          .Add("vocab_size", &Params::vocab_size,
               "0 stands for nothing yet, the last id is not used, the others are data")
          .Add("input_seq_len", &Params::input_seq_len, "tokens of one sample")
          .Add("lag", &Params::lag, "tokens between an input and its label");
  return fields;
}

void Validate(const CopyingLagParams& params, const std::string& where) {
  const NamedValue input_seq_len("input_seq_len", params.input_seq_len);
  const NamedValue lag("lag", params.lag);
  const Rules rules("copying_lag", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({input_seq_len});
  rules.Must(params.vocab_size >= 3, "vocab_size must be >= 3",
             {{"vocab_size", params.vocab_size}});
  rules.Must(params.lag >= 1, "lag must be >= 1", {lag});
  rules.Must(params.lag < params.input_seq_len, "lag must be < input_seq_len",
             {lag, input_seq_len});
}

std::unique_ptr<Task> MakeCopyingLag(const CopyingLagParams& params) {
  return std::make_unique<CopyingLagTask>(params);
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "copying_lag",
      WithOptions<CopyingLagParams>(
          {.summary = "at every token, the one that came a fixed number of tokens before",
           .source = "S4 copying data, lag variant (state-spaces/s4)",
           .aliases = {"s4_copying_lag"},
           .presentation_params = {},
           .presets = {{.name = "copy/s4-lag",
                        .params = CopyingLagFields().Write({}),
                        .num_train = 0,  // made as they are needed
                        .num_test = 1000,
                        .reproduces = "S4 copying with a lag, sizes of its default"}},
           .deviations =
               {"the zeros before the first data token are scored, as in S4; a slice keeps "
                "them apart"}},
          CopyingLagFields(), Validate, MakeCopyingLag));
}

}  // namespace mixerbench::tasks::copying_lag
