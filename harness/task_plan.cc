// SPDX-License-Identifier: Apache-2.0
#include "harness/task_plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "harness/read_value.h"

namespace mixerbench::harness {
namespace {

constexpr std::int64_t kDefaultValidationExamples = 1000;

// One split: options whose values are lists of one length, paired in order; the rest is shared.
std::vector<Segment> ParseSplit(const tasks::TaskEntry& entry, const Object& shared,
                                const Object& own, const std::string& where,
                                std::int64_t least_examples) {
  Object merged = shared;
  for (const auto& [key, value] : own) merged[key] = value;
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
                            std::to_string(num_segments) + "); use sweep.grid for products");
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
        segment.num_examples = ReadInt(item, place, least_examples);
      } else {
        params[key] = item;
      }
    }
    segment.params = entry.resolve(params, where);
    segments.push_back(std::move(segment));
  }
  return segments;
}

// Fills in what follows from the segments.
void MeasureTasks(TaskPlan& plan, const tasks::TaskEntry& entry) {
  const std::string where = "/task";
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

TaskPlan ParseTaskPlan(const Value& task, const tasks::TaskRegistry& registry) {
  const std::string where = "/task";
  RequireObject(task, where);
  TaskPlan plan;
  plan.name = ReadName(RequireMember(task, where, "name"), where + "/name");
  const tasks::TaskEntry& entry = registry.Find(plan.name, where + "/name");
  Object shared;
  for (const auto& [key, value] : task.as_object()) {
    if (key == "name" || key == "train" || key == "validation" || key == "test") continue;
    if (key == "data_seed") {
      plan.data_seed = static_cast<std::uint64_t>(ReadInt(value, where + "/data_seed", 0));
    } else {
      shared[key] = value;
    }
  }
  const auto split = [&](const char* name, bool required) -> Object {
    const Value* value = task.Find(name);
    const std::string place = where + "/" + name;
    if (!value) {
      if (required) throw ConfigError(place, "missing; say which data to use, at least {}");
      return {};
    }
    RequireObject(*value, place);
    return value->as_object();
  };
  const Object train = split("train", true);
  plan.train = ParseSplit(entry, shared, train, where + "/train", 0);
  // What validation leaves out it takes from train, but for the size of the data set.
  Object validation = train;
  validation["num_examples"] = kDefaultValidationExamples;
  for (const auto& [key, value] : split("validation", false)) validation[key] = value;
  plan.validation = ParseSplit(entry, shared, validation, where + "/validation", 1);
  Object test = split("test", true);
  test.try_emplace("num_examples", kDefaultValidationExamples);
  plan.test = ParseSplit(entry, shared, test, where + "/test", 1);
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
