// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/task_plan.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "io/read_value.h"

namespace mixerbench::harness {
namespace {

constexpr std::int64_t kDefaultEvaluationExamples = 1000;

// Options of a split, those of later layers instead of those of earlier ones.
Object Layered(std::initializer_list<const Object*> layers) {
  Object merged;
  for (const Object* layer : layers) {
    for (const auto& [key, value] : *layer) merged[key] = value;
  }
  return merged;
}

// A preset's split as a suite would spell it: an option that differs between segments is a list. A
// size that the preset leaves to its user is left out.
Object SpelledOut(const tasks::TaskEntry& entry, const tasks::Preset& preset, tasks::Split split) {
  std::vector<Object> rows;
  for (const tasks::Segment& segment : tasks::SegmentsOf(preset, split)) {
    rows.push_back(entry.resolve(segment.params, "").as_object());
    if (segment.num_samples > 0 || split == tasks::Split::kTrain) {
      rows.back()["num_examples"] = segment.num_samples;
    }
  }
  Object options = rows.front();
  for (auto& [key, value] : options) {
    Array list;
    for (const Object& row : rows) list.push_back(row.at(key));
    const bool is_shared = std::count(list.begin(), list.end(), value) == std::ssize(list);
    if (!is_shared) value = std::move(list);
  }
  return options;
}

// One split: options whose values are lists of one length, paired in order; the rest is shared.
std::vector<Segment> ParseSplit(const tasks::TaskEntry& entry, const Object& merged,
                                const std::string& where, std::int64_t least_examples,
                                bool has_preset) {
  std::size_t num_segments = 1;
  std::string list_key;
  for (const auto& [key, value] : merged) {
    if (!value.is_array()) continue;
    const std::size_t size = value.as_array().size();
    if (size == 0) throw ConfigError(where + "/" + key, "an empty list has no segments");
    if (!list_key.empty() && size != num_segments) {
      throw ConfigError(where + "/" + key,
                        "lists are paired in order, so '" + key + "' and '" + list_key +
                            "' need equal lengths (" + std::to_string(size) + " and " +
                            std::to_string(num_segments) + "); use sweep.grid for products" +
                            (has_preset ? "; what you leave out is the preset's" : ""));
    }
    list_key = key;
    num_segments = size;
  }
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < num_segments; ++i) {
    Object params;
    Segment segment;
    for (const auto& [key, value] : merged) {
      const std::string place =
          where + "/" + key + (value.is_array() ? "/" + std::to_string(i) : "");
      const Value& item = value.is_array() ? value.as_array()[i] : value;
      if (key == "num_examples") {
        segment.num_examples = io::ReadInt(item, place, least_examples);
      } else {
        params[key] = item;
      }
    }
    segment.params = entry.resolve(params, where);
    segments.push_back(std::move(segment));
  }
  return segments;
}

// Reports have a row for each setting of the task's options: two segments with one would be one
// row.
void RequireDistinct(const std::vector<Segment>& segments, const std::string& where) {
  for (auto segment = segments.begin(); segment != segments.end(); ++segment) {
    const bool is_new = std::none_of(segments.begin(), segment, [&](const Segment& other) {
      return other.params == segment->params;
    });
    if (is_new) continue;
    throw ConfigError(where, "segment " + std::to_string(segment - segments.begin()) +
                                 " has the options of one that stands there already; give one all "
                                 "of the samples");
  }
}

// What "/task" says of the data: of all splits, and of each.
struct GivenOptions {
  Object shared, train, validation, test;
};

GivenOptions ReadGiven(const Value& task, bool has_preset) {
  static const std::set<std::string_view> kNoOptions = {"data_seed", "name",  "preset",
                                                        "test",      "train", "validation"};
  GivenOptions given;
  for (const auto& [key, value] : task.as_object()) {
    if (!kNoOptions.contains(key)) given.shared[key] = value;
  }
  const auto split = [&](const char* name, bool is_required) -> Object {
    const Value* value = task.Find(name);
    const std::string place = std::string("/task/") + name;
    if (!value) {
      if (is_required) throw ConfigError(place, "missing; say which data to use, at least {}");
      return {};
    }
    io::RequireObject(*value, place);
    return value->as_object();
  };
  given.train = split("train", !has_preset);
  given.validation = split("validation", false);
  given.test = split("test", !has_preset);
  return given;
}

// Fills in what follows from the task and the segments.
void MeasureTasks(TaskPlan& plan, const tasks::TaskEntry& entry) {
  const std::string where = "/task";
  plan.version = entry.version;
  for (const auto* segments : {&plan.train, &plan.validation, &plan.test}) {
    for (const Segment& segment : *segments) {
      const auto shape = entry.create(segment.params, where)->shape();
      if (plan.vocab_size != 0 && shape.vocab_size != plan.vocab_size) {
        throw ConfigError(where, "all segments must have one vocabulary (found " +
                                     std::to_string(plan.vocab_size) + " and " +
                                     std::to_string(shape.vocab_size) + ")");
      }
      plan.vocab_size = shape.vocab_size;
      plan.max_seq_len = std::max(plan.max_seq_len, shape.seq_len);
    }
  }
}

std::vector<Segment> SegmentsFromValue(const Value& value) {
  std::vector<Segment> segments;
  for (const Value& item : value.as_array()) {
    Object params = item.as_object();
    const std::int64_t num_examples = params.at("num_examples").as_int();
    params.erase("num_examples");
    segments.push_back({std::move(params), num_examples});
  }
  return segments;
}

}  // namespace

std::optional<tasks::FoundPreset> PresetOf(const Value& task, const tasks::TaskRegistry& registry) {
  const Value* name = task.Find("preset");
  if (name == nullptr) return std::nullopt;
  return tasks::FindPreset(registry, io::ReadName(*name, "/task/preset"), "/task/preset");
}

TaskPlan ParseTaskPlan(const Value& task, const tasks::TaskRegistry& registry) {
  const std::string where = "/task";
  io::RequireObject(task, where);
  const std::optional<tasks::FoundPreset> preset = PresetOf(task, registry);
  TaskPlan plan;
  if (preset && task.Find("name") == nullptr) {
    plan.name = preset->task;
  } else {
    plan.name = io::ReadName(io::RequireMember(task, where, "name"), where + "/name");
  }
  const tasks::TaskEntry& entry = registry.Find(plan.name, where + "/name");
  if (preset && plan.name != preset->task) {
    throw ConfigError(where + "/preset", "'" + preset->preset.name + "' is a preset of '" +
                                             preset->task + "', not of '" + plan.name +
                                             "'; leave 'name' out");
  }
  if (preset) plan.data_seed = preset->preset.seed;
  if (const Value* seed = task.Find("data_seed")) {
    plan.data_seed = static_cast<std::uint64_t>(io::ReadInt(*seed, where + "/data_seed", 0));
  }
  const auto parse = [&](const Object& merged, const char* split, std::int64_t least_examples) {
    return ParseSplit(entry, merged, where + "/" + split, least_examples, preset.has_value());
  };
  const GivenOptions given = ReadGiven(task, preset.has_value());
  Object preset_train, preset_test;
  if (preset) {
    preset_train = SpelledOut(entry, preset->preset, tasks::Split::kTrain);
    preset_test = SpelledOut(entry, preset->preset, tasks::Split::kTest);
  }
  const Object default_size = {{"num_examples", kDefaultEvaluationExamples}};
  const Object train = Layered({&preset_train, &given.shared, &given.train});
  plan.train = parse(train, "train", 0);
  // What validation leaves out it takes from train, but for the size of the data set.
  Object inherited = train;
  inherited.erase("num_examples");
  plan.validation = parse(Layered({&default_size, &given.shared, &inherited, &given.validation}),
                          "validation", 1);
  plan.test = parse(Layered({&default_size, &preset_test, &given.shared, &given.test}), "test", 1);
  RequireDistinct(plan.validation, where + "/validation");
  RequireDistinct(plan.test, where + "/test");
  MeasureTasks(plan, entry);
  return plan;
}

Value SegmentsToValue(const std::vector<Segment>& segments) {
  Array array;
  for (const Segment& segment : segments) {
    Object object = segment.params.as_object();
    object["num_examples"] = segment.num_examples;
    array.emplace_back(std::move(object));
  }
  return array;
}

Value TaskPlanToValue(const TaskPlan& plan) {
  return Object{{"name", plan.name},
                {"version", plan.version},
                {"data_seed", std::to_string(plan.data_seed)},
                {"train", SegmentsToValue(plan.train)},
                {"validation", SegmentsToValue(plan.validation)},
                {"test", SegmentsToValue(plan.test)}};
}

TaskPlan TaskPlanFromValue(const Value& value, const tasks::TaskRegistry& registry) {
  const Object& object = value.as_object();
  TaskPlan plan;
  plan.name = object.at("name").as_string();
  plan.data_seed = std::stoull(object.at("data_seed").as_string());
  plan.train = SegmentsFromValue(object.at("train"));
  plan.validation = SegmentsFromValue(object.at("validation"));
  plan.test = SegmentsFromValue(object.at("test"));
  MeasureTasks(plan, registry.Find(plan.name, "/task/name"));
  return plan;
}

}  // namespace mixerbench::harness
