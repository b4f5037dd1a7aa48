// `describe preset`: the data sets that a preset stands for.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "harness/cli/commands.h"
#include "harness/dataset/dataset.h"
#include "io/json.h"
#include "tasks/find_preset.h"

namespace mixerbench::harness {
namespace {

using tasks::Split;

// The segments of a split, every option spelt out.
std::vector<tasks::Segment> Resolved(const tasks::FoundPreset& found, Split split) {
  std::vector<tasks::Segment> segments = tasks::SegmentsOf(found.preset, split);
  for (tasks::Segment& segment : segments) {
    segment.params = found.entry.resolve(segment.params, "");
  }
  return segments;
}

// As a suite has them (docs/CONFIG.md).
Value ToValue(const std::vector<tasks::Segment>& segments) {
  Array array;
  for (const tasks::Segment& segment : segments) {
    Object object = segment.params.as_object();
    object["num_examples"] = segment.num_samples;
    array.emplace_back(std::move(object));
  }
  return array;
}

std::string OptionsText(const Object& params, const std::set<std::string>& names) {
  std::string text;
  for (const auto& [name, value] : params) {
    if (names.contains(name)) text += fmt::format(" {}={}", name, io::DumpJson(value));
  }
  return text;
}

std::string SegmentLine(const tasks::FoundPreset& found, const char* split,
                        const tasks::Segment& segment, const std::set<std::string>& differing) {
  const auto shape = found.entry.create(segment.params, "")->shape();
  return fmt::format("  {:<5} {:>8} of {} tokens, {} token ids{}\n", split,
                     segment.num_samples == 0 ? "online" : std::to_string(segment.num_samples),
                     shape.seq_len, shape.vocab_size,
                     OptionsText(segment.params.as_object(), differing));
}

}  // namespace

ExitCode DescribePreset(const std::string& name, bool json) {
  const auto registry = AllTasks();
  const tasks::FoundPreset found = tasks::FindPreset(registry, name, "");
  const std::vector<tasks::Segment> train = Resolved(found, Split::kTrain);
  const std::vector<tasks::Segment> test = Resolved(found, Split::kTest);
  const std::string labels(NameOf(found.preset.train_labels));
  if (json) {
    std::cout << io::DumpJson(Object{{"name", found.preset.name},
                                     {"reproduces", found.preset.reproduces},
                                     {"task", found.task},
                                     {"task_version", found.entry.version},
                                     {"data_seed", std::to_string(found.preset.seed)},
                                     {"loss_mode", labels},
                                     {"train", ToValue(train)},
                                     {"test", ToValue(test)}},
                              2);
    return ExitCode::kOk;
  }
  const Object first = train.front().params.as_object();
  std::set<std::string> common, differing;
  for (const auto& [option, value] : first) common.insert(option);
  for (const auto* segments : {&train, &test}) {
    for (const tasks::Segment& segment : *segments) {
      for (const auto& [option, value] : segment.params.as_object()) {
        if (!(first.at(option) == value)) differing.insert(option);
      }
    }
  }
  for (const std::string& option : differing) common.erase(option);
  std::cout << fmt::format("{}: {}\ntask: {}, version {}\ndata_seed: {}\ntrained on labels: {}\n",
                           found.preset.name, found.preset.reproduces, found.task,
                           found.entry.version, found.preset.seed, labels)
            << "options:" << OptionsText(first, common) << "\nsamples\n";
  for (const auto& segment : train) std::cout << SegmentLine(found, "train", segment, differing);
  for (const auto& segment : test) std::cout << SegmentLine(found, "test", segment, differing);
  std::cout << fmt::format("\nin a suite: \"task\": {{\"preset\": \"{}\"}}\n", found.preset.name);
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
