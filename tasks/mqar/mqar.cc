// SPDX-License-Identifier: Apache-2.0
#include "tasks/mqar/mqar.h"

#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/power_law.h"
#include "tasks/presets.h"
#include "tasks/rules.h"
#include "tasks/slices.h"
#include "tasks/task_entry.h"

namespace mixerbench::tasks::mqar {
namespace {

MqarSampler MakeSampler(const MqarParams& params) {
  return {.vocab_size = static_cast<std::uint32_t>(params.vocab_size),
          .seq_len = static_cast<std::uint32_t>(params.input_seq_len),
          .num_kv_pairs = static_cast<std::uint32_t>(params.num_kv_pairs),
          .num_passes = static_cast<std::uint32_t>(params.num_passes),
          .noise = params.noise};
}

class MqarTask final : public SampledTask<MqarSampler> {
 public:
  MqarTask(const MqarParams& params, MqarSampler sampler, std::vector<std::uint32_t> tables)
      : SampledTask(sampler, std::move(tables)), params_(params) {}

  TaskShape shape() const override {
    return {.vocab_size = params_.vocab_size,
            .seq_len = params_.input_seq_len,
            .max_num_scored = params_.num_kv_pairs,
            .scratch_words = sampler().scratch_words()};
  }

  std::string canon() const override {
    return Canon("mqar")
        .Integer("L", params_.input_seq_len)
        .Integer("kv", params_.num_kv_pairs)
        .Integer("passes", params_.num_passes)
        .Real("power_a", params_.power_a)
        .Integer("vocab", params_.vocab_size)
        .Text();
  }

  // Reads the list of pairs at the start, whose length the options give. Looking anywhere else
  // would be fooled by random filler that happens to repeat a key.
  void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
             std::span<std::int32_t> answers) const override {
    std::unordered_map<std::int32_t, std::int32_t> value_of;
    for (std::size_t t = 0; t < sampler().context_len(); t += 2) {
      value_of[inputs[t]] = inputs[t + 1];
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto found = value_of.find(inputs[static_cast<std::size_t>(positions[i])]);
      answers[i] = found == value_of.end() ? kIgnore : found->second;
    }
  }

  std::vector<Baseline> baselines() const override {
    const std::int64_t num_values = params_.vocab_size - params_.vocab_size / 2;
    return {{"uniform over values", 1.0 / static_cast<double>(num_values)},
            {"some value of the context", 1.0 / static_cast<double>(params_.num_kv_pairs)}};
  }

  std::vector<SliceKey> slice_keys() const override {
    return {CountSlice("gap"), CountSlice("pair_index"), CountSlice("num_queries_between")};
  }

  void AssignSlices(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                    std::span<std::int32_t> buckets) const override {
    std::unordered_map<std::int32_t, std::int64_t> index_of;  // of a key in the list of pairs
    for (std::int64_t j = 0; j < params_.num_kv_pairs; ++j) {
      index_of[inputs[static_cast<std::size_t>(2 * j)]] = j;
    }
    std::size_t num_queries = 0;
    for (std::size_t t = sampler().context_len(); t < inputs.size(); ++t) {
      if (labels[t] == kIgnore) continue;
      const auto gap = static_cast<std::int64_t>(t - sampler().context_len()) / 2;
      buckets[3 * num_queries] = CountBucket(gap);
      buckets[3 * num_queries + 1] = CountBucket(index_of.at(inputs[t]));
      buckets[3 * num_queries + 2] = CountBucket(static_cast<std::int64_t>(num_queries));
      ++num_queries;
    }
  }

 private:
  MqarParams params_;
};

// One point of a published grid.
struct Point {
  std::int64_t input_seq_len;
  std::int64_t num_kv_pairs;
  std::int64_t num_samples = 0;  // of a mixture's segment

  std::string Name() const {
    return std::to_string(input_seq_len) + "x" + std::to_string(num_kv_pairs);
  }
};

Value PointParams(const Point& point, Noise noise, double power_a = MqarParams{}.power_a) {
  return MqarFields().Write({.input_seq_len = point.input_seq_len,
                             .num_kv_pairs = point.num_kv_pairs,
                             .power_a = power_a,
                             .noise = noise});
}

std::vector<Segment> Segments(const std::vector<Point>& points, Noise noise) {
  std::vector<Segment> segments;
  for (const Point& p : points) segments.push_back({PointParams(p, noise), p.num_samples});
  return segments;
}

std::vector<Preset> Presets() {
  std::vector<Preset> presets;
  const auto add = [&presets](std::string name, Value params, std::int64_t num_train,
                              std::int64_t num_test, std::string reproduces) {
    presets.push_back({.name = std::move(name),
                       .params = std::move(params),
                       .num_train = num_train,
                       .num_test = num_test,
                       .seed = kZoologySeed,
                       .reproduces = std::move(reproduces)});
  };
  add("mqar/tiny",
      MqarFields().Write(
          {.vocab_size = 64, .input_seq_len = 16, .num_kv_pairs = 2, .noise = Noise::kZero}),
      1000, 200, "smoke test");
  for (const Point& p : std::vector<Point>{{64, 4}, {128, 8}, {256, 16}, {512, 64}}) {
    add("mqar/fig2-" + p.Name(), PointParams(p, Noise::kZero), 100000, 3000,
        "Zoology (ICLR 2024) Fig 2");
  }

  const std::vector<Point> based_train = {
      {64, 4, 100000}, {128, 8, 20000}, {256, 16, 20000}, {256, 32, 20000}, {256, 64, 20000}};
  const std::vector<Point> based_test = {{64, 4, 1000},    {64, 8, 1000},   {64, 16, 1000},
                                         {128, 32, 1000},  {256, 64, 1000}, {512, 128, 1000},
                                         {1024, 256, 1000}};
  std::vector<Point> harder_test = based_test;
  harder_test.push_back({2048, 512, 1000});
  const std::vector<Point> extrap_train = {
      {64, 4, 100000}, {64, 8, 20000}, {64, 16, 20000}, {128, 32, 10000}, {256, 64, 5000}};
  presets.push_back(MixturePreset("mqar/based", Segments(based_train, Noise::kRandom),
                                  Segments(based_test, Noise::kRandom), "Based Fig 2 and 3",
                                  kZoologySeed));
  presets.push_back(MixturePreset("mqar/based-zero", Segments(based_train, Noise::kZero),
                                  Segments(based_test, Noise::kZero),
                                  "Zoology, random_non_queries false", kZoologySeed));
  presets.push_back(MixturePreset("mqar/based-harder", Segments(based_train, Noise::kRandom),
                                  Segments(harder_test, Noise::kRandom), "Based ablation 02-09",
                                  kZoologySeed));
  presets.push_back(MixturePreset("mqar/extrap", Segments(extrap_train, Noise::kRandom),
                                  Segments(based_test, Noise::kRandom), "Based ablation 01-26",
                                  kZoologySeed));

  for (const Point& p : std::vector<Point>{{64, 4}, {128, 8}, {256, 16}, {512, 64}}) {
    add("mqar/sse-s1/" + p.Name(), PointParams(p, Noise::kZero), 100000, 3000,
        "SSE Fig 7 setting 1; sizes assumed");
    add("mqar/sse-s2/" + p.Name(), PointParams(p, Noise::kRandom), 100000, 3000,
        "SSE Fig 7 setting 2; sizes assumed");
  }
  for (const Point& p : std::vector<Point>{{64, 4}, {128, 8}, {256, 16}, {512, 32}}) {
    add("mqar/resona/" + p.Name(), PointParams(p, Noise::kZero), 20000, 1000,
        "RESONA Fig 5, Tab 11; filler assumed");
    add("mqar/resona-100k/" + p.Name(), PointParams(p, Noise::kZero), 100000, 3000,
        "RESONA Fig 5, Tab 11 with zoology's sizes; filler assumed");
  }
  add("mqar/gap-a1", PointParams({256, 16}, Noise::kRandom, 1), 100000, 3000, "far queries");
  add("mqar/gap-a3", PointParams({256, 16}, Noise::kRandom, 3), 100000, 3000, "far queries");
  for (const std::int64_t num_kv_pairs : {8, 16, 32, 64, 128, 256}) {
    add("mqar/capacity/kv-" + std::to_string(num_kv_pairs),
        PointParams({1024, num_kv_pairs}, Noise::kRandomSafe), 100000, 3000,
        "recall against state size");
  }
  return presets;
}

}  // namespace

const Fields<MqarParams>& MqarFields() {
  static const auto fields =
      Fields<MqarParams>()
          .Add("vocab_size", &MqarParams::vocab_size,
               "0 is filler, the lower half keys, the upper half values")
          .Add("input_seq_len", &MqarParams::input_seq_len, "tokens of one sample; even")
          .Add("num_kv_pairs", &MqarParams::num_kv_pairs, "key-value pairs, and queries")
          .Add("num_passes", &MqarParams::num_passes, "times the list of pairs is shown")
          .Add("power_a", &MqarParams::power_a,
               "exponent of the gaps between pairs and queries: 1 uniform, smaller nearer")
          .Add("noise", &MqarParams::noise,
               "filler between queries: 0, any token, or any token but this sample's keys");
  return fields;
}

void Validate(const MqarParams& params, const std::string& where) {
  const NamedValue vocab_size("vocab_size", params.vocab_size);
  const NamedValue input_seq_len("input_seq_len", params.input_seq_len);
  const NamedValue num_kv_pairs("num_kv_pairs", params.num_kv_pairs);
  const NamedValue num_passes("num_passes", params.num_passes);
  const Rules rules("mqar", where);
  rules.VocabSize(params.vocab_size);
  rules.SequenceLength({input_seq_len});
  rules.Must(params.num_kv_pairs >= 1, "num_kv_pairs must be >= 1", {num_kv_pairs});
  rules.Must(params.num_passes >= 1, "num_passes must be >= 1", {num_passes});
  rules.Must(params.input_seq_len % 2 == 0, "input_seq_len must be even", {input_seq_len});
  // kv * (passes + 1) <= L / 2 without a product that could overflow.
  const bool is_room = params.num_passes < params.input_seq_len &&
                       params.num_kv_pairs <= params.input_seq_len / 2 / (params.num_passes + 1);
  rules.Must(is_room, "need 2*num_kv_pairs*(num_passes+1) <= input_seq_len",
             {num_kv_pairs, num_passes, input_seq_len});
  rules.Must(params.num_kv_pairs <= params.vocab_size / 2 - 1,
             "num_kv_pairs must be <= vocab_size/2 - 1", {num_kv_pairs, vocab_size});
  rules.Must(params.power_a > 0, "power_a must be > 0", {{"power_a", params.power_a}});
}

std::unique_ptr<Task> MakeMqar(const MqarParams& params) {
  const MqarSampler sampler = MakeSampler(params);
  std::vector<std::uint32_t> tables =
      WeightSums(PowerLawWeights(sampler.num_slots(), params.power_a));
  return std::make_unique<MqarTask>(params, sampler, std::move(tables));
}

void Register(TaskRegistry& registry) {
  registry.Add(
      "mqar",
      WithOptions<MqarParams>(
          {.summary = "multi-query associative recall: key-value pairs, then queries of every key",
           .source = "Arora et al., Zoology, ICLR 2024 (arXiv 2312.04927)",
           .aliases = {"multiquery_ar", "multi-query AR"},
           .presentation_params = {"noise"},
           .presets = Presets(),
           .deviations = {"Q01: num_passes > 1 works",
                          "Q02: filler comes from its own stream, not from a global generator",
                          "Q03: unknown options are rejected, not ignored",
                          "Q04: noise=random_safe keeps stored keys out of the filler",
                          "Q06: samples are drawn directly, without vocabulary-sized tables"}},
          MqarFields(), Validate, MakeMqar));
}

}  // namespace mixerbench::tasks::mqar
