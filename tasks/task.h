// The interface of a task: samples as pure functions of their keys, an oracle, chance, slices.
// No torch and no JSON here; sampling itself (Philox and what follows from it) is in sampling.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/registry.h"
#include "base/value.h"
#include "tasks/sampling.h"

namespace mixerbench::tasks {

// A label that is neither trained nor scored.
inline constexpr std::int32_t kIgnore = -100;

// Streams of samples that share no randomness. User splits start at 16.
enum class Split : std::uint64_t { kTrain = 0, kValidation = 1, kTest = 2 };

// Which positions carry a label. Never enters the sampling key: the inputs are the same.
enum class LabelMode : std::int32_t {
  kScored = 0,      // the positions that evaluation scores
  kAllTokens = 1,   // every position: the answer where there is one, else the next token
  kTargetOnly = 2,  // the last answer of the sample alone; of text all its tokens
};

// Sizes that are the same for every sample of one (task, parameters).
struct TaskShape {
  std::int64_t vocab_size = 0;
  std::int64_t seq_len = 0;         // length of `inputs` and `labels`
  std::int64_t max_num_scored = 0;  // upper bound of scored positions of one sample
  std::int64_t scratch_words = 0;   // 32-bit words of working memory that one sample needs
  std::int64_t max_num_target = 1;  // upper bound of positions with a label in kTargetOnly mode
};

// A way of splitting scored positions into groups, each reported on its own.
struct SliceKey {
  std::string name;                  // "gap", "target_index", ...
  std::vector<std::string> buckets;  // their labels, in order
};

// What a model scores that knows how common each answer is, and no more unless the name says so.
struct Baseline {
  std::string name;  // "uniform over values", "some value of the context"
  double accuracy = 0;
  // Also knows how common each answer is at each position.
  bool knows_position = false;
  // Answers that `accuracy` leaves out, because the layout alone gives them away (an end mark).
  std::vector<std::int32_t> without = {};
  // Answers that the layout gives away and that count as known.
  std::vector<std::int32_t> given = {};
  double error = 0;  // standard error of `accuracy`, where that is an estimate
  // The probability of a right guess at a scored position with this label, where that is not
  // `accuracy` at each of them.
  std::function<double(std::int64_t position, std::int32_t label)> accuracy_at = {};

  double AccuracyAt(std::int64_t position, std::int32_t label) const {
    return accuracy_at ? accuracy_at(position, label) : accuracy;
  }
};

class Task;
class TextTask;

// Consecutive samples of one stream.
struct TaskSamples {
  const Task& task;
  PhiloxKey key;
  std::uint64_t first = 0;
  std::int64_t count = 0;
};

// One task with fixed, valid parameters. Immutable; every method may be called from any thread.
class Task {
 public:
  virtual ~Task() = default;

  virtual TaskShape shape() const = 0;

  // The canonical string that keys the random streams (tasks/README.md).
  virtual std::string canon() const = 0;

  // Writes sample `stream.index` of `stream.key`. inputs, labels: [seq_len]; scratch:
  // [scratch_words]. Pure: equal streams give equal bytes on every machine and device.
  virtual void Generate(const SampleStream& stream, LabelMode mode, std::span<std::int32_t> inputs,
                        std::span<std::int32_t> labels, std::span<std::uint32_t> scratch) const = 0;

  // Answers the given positions from the visible tokens alone; knows neither key nor labels.
  // inputs [seq_len]; positions and answers have equal size.
  virtual void Solve(std::span<const std::int32_t> inputs, std::span<const std::int32_t> positions,
                     std::span<std::int32_t> answers) const = 0;

  // Share of scored positions that Solve answers correctly; 1 unless documented otherwise.
  virtual double oracle_accuracy() const { return 1.0; }

  // Share of the scored positions of `test`, samples of this task, that a learner who has seen
  // `train`, samples of tasks of this kind, can know; below 1 where answers must have been seen in
  // training because the sample itself does not hold them.
  virtual double Ceiling(std::span<const TaskSamples> /*train*/,
                         const TaskSamples& /*test*/) const {
    return 1.0;
  }

  // The first one is the chance level that reports print.
  virtual std::vector<Baseline> baselines() const = 0;

  // Slices of scored positions beyond the parameters themselves, which the harness adds.
  virtual std::vector<SliceKey> slice_keys() const { return {}; }

  // The bucket of each scored position for each slice key, -1 for none.
  // labels: [seq_len] in kScored mode; buckets: [num scored positions, slice_keys().size()].
  virtual void AssignSlices(std::span<const std::int32_t> inputs,
                            std::span<const std::int32_t> labels,
                            std::span<std::int32_t> buckets) const = 0;

  // Integer tables built once on the host, read by the device generator.
  virtual std::span<const std::uint32_t> tables() const { return {}; }

  // What a user of its samples should know and may not expect, one sentence each.
  virtual std::vector<std::string> warnings() const { return {}; }

  // The text form (text/text_task.h) of tasks that have one; their samples are made on the CPU.
  virtual const TextTask* text() const { return nullptr; }
};

// One piece of a data set.
struct Segment {
  Value params;  // options of the task, an object
  std::int64_t num_samples = 0;
};

// A named parameter setting with the sizes of the data sets it stands for. A published grid is a
// family of presets, one for each point, whose names share all but the last part
// ("mqar/capacity/kv-8", "mqar/capacity/kv-16", ...).
struct Preset {
  std::string name;  // "mqar/fig2-64x4"
  Value params;      // options of the task, an object; of a mixture, its first train segment
  std::int64_t num_train = 0;  // 0: online, never repeated; of a mixture, the sum
  std::int64_t num_test = 0;
  std::uint64_t seed = 0;
  std::string reproduces;  // the publication and figure
  // What training is on. Tests score kScored.
  LabelMode train_labels = LabelMode::kScored;
  // A mixture: trained on all of `train` together, tested on each of `test`. Empty when `params`
  // alone serves both.
  std::vector<Segment> train = {};
  std::vector<Segment> test = {};
};

// What the registry knows of a task.
struct TaskEntry {
  std::string summary;  // one line
  std::string source;   // papers
  // Goes up when settings that were valid before come to give other samples. The task's page says
  // what changed; canon() does not, so that what did not change keeps its bytes.
  std::int64_t version = 1;
  // The answer at a position is the token there, so a causal model copies its input. Only a model
  // that answers every position from one vector (models/backbone.h, is_autoencoder) is tested.
  bool needs_autoencoder = false;
  std::vector<std::string> aliases;  // other tools' names
  std::vector<FieldInfo> params{};
  // Those of `params` that do not enter canon(): samples that differ in nothing else are pairs.
  std::vector<std::string> presentation_params;
  std::vector<Preset> presets;
  std::vector<std::string> deviations;  // from the reference generators, with their Q-numbers
  // Parses and validates. `where` is the JSON pointer of `params`, used in messages.
  // Throws ConfigError, which names the parameter, its value and what is allowed.
  std::function<std::unique_ptr<Task>(const Value& params, const std::string& where)> create{};
  // Every parameter with its default filled in, after validation.
  std::function<Value(const Value& params, const std::string& where)> resolve{};
};

using TaskRegistry = Registry<TaskEntry>;

// Registers every folder of tasks/ (generated).
void RegisterTasks(TaskRegistry& registry);

// SHA-256 of the code and the shipped texts that one task's samples are made of (generated).
std::string_view TaskCodeHash(std::string_view task);

}  // namespace mixerbench::tasks

template <>
struct mixerbench::EnumNames<mixerbench::tasks::LabelMode> {
  using Mode = tasks::LabelMode;
  static constexpr std::pair<Mode, std::string_view> kNames[] = {
      {Mode::kScored, "scored"},
      {Mode::kAllTokens, "all_tokens"},
      {Mode::kTargetOnly, "target_only"}};
};
