// SPDX-License-Identifier: Apache-2.0
#include "harness/suite.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "base/check.h"
#include "base/sha256.h"
#include "base/suggest.h"
#include "harness/data.h"
#include "harness/embedded.h"
#include "harness/value_path.h"
#include "reports/atomic_file.h"
#include "reports/json.h"

namespace mixerbench::harness {
namespace {

constexpr std::size_t kMaxSuiteBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxCells = 100'000;
constexpr std::int64_t kDefaultValidationExamples = 1000;
// Samples of each segment that enter the data hash: a generator that changes at all changes these.
constexpr std::uint64_t kHashedSamples = 64;

const Value& RequireMember(const Value& object, const std::string& where, std::string_view key) {
  const Value* member = object.Find(key);
  if (!member) {
    throw ConfigError(where + "/" + std::string(key), "missing; add it (see docs/CONFIG.md)");
  }
  return *member;
}

void RequireKnownKeys(const Value& object, const std::string& where,
                      const std::vector<std::string>& known) {
  if (!object.is_object()) {
    throw ConfigError(where, "expected an object, got " + std::string(object.type_name()));
  }
  for (const auto& [key, value] : object.as_object()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw ConfigError(where + "/" + key, UnknownName("key", key, known));
    }
  }
}

std::int64_t ReadInt(const Value& value, const std::string& where, std::int64_t least) {
  if (!value.is_int()) {
    throw ConfigError(where, "expected an integer, got " + std::string(value.type_name()));
  }
  if (value.as_int() < least) throw ConfigError(where, "must be >= " + std::to_string(least));
  return value.as_int();
}

std::string ReadName(const Value& value, const std::string& where) {
  if (!value.is_string()) {
    throw ConfigError(where, "expected a string, got " + std::string(value.type_name()));
  }
  return value.as_string();
}

// --- task ------------------------------------------------------------------------------------

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

TaskPlan ParseTask(const Value& task, const Registries& registries) {
  const std::string where = "/task";
  if (!task.is_object()) {
    throw ConfigError(where, "expected an object, got " + std::string(task.type_name()));
  }
  TaskPlan plan;
  plan.name = ReadName(RequireMember(task, where, "name"), where + "/name");
  const tasks::TaskEntry& entry = registries.tasks.Find(plan.name, where + "/name");
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
    if (!value->is_object()) {
      throw ConfigError(place, "expected an object, got " + std::string(value->type_name()));
    }
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
  std::int64_t vocab_size = -1;
  for (const auto* segments : {&plan.train, &plan.validation, &plan.test}) {
    for (const Segment& segment : *segments) {
      const auto shape = entry.create(segment.params, where)->shape();
      if (vocab_size >= 0 && shape.vocab_size != vocab_size) {
        throw ConfigError(where, "all segments must have one vocabulary (found " +
                                     std::to_string(vocab_size) + " and " +
                                     std::to_string(shape.vocab_size) + ")");
      }
      vocab_size = shape.vocab_size;
    }
  }
  return plan;
}

// --- model, throughput, seeds ----------------------------------------------------------------

Value ResolveModel(const Value& model, const Registries& registries) {
  const std::string where = "/model";
  if (!model.is_object()) {
    throw ConfigError(where, "expected an object, got " + std::string(model.type_name()));
  }
  Object config = model.as_object();
  std::string backbone = "zoology";
  if (const auto found = config.find("backbone"); found != config.end()) {
    backbone = ReadName(found->second, where + "/backbone");
    config.erase(found);
  }
  const auto& entry = registries.backbones.Find(backbone, where + "/backbone");
  Value resolved = entry.resolve(config, where, registries.mixers);
  resolved.as_object()["backbone"] = backbone;
  return resolved;
}

ThroughputPlan ParseThroughput(const Value& value) {
  const std::string where = "/throughput";
  RequireKnownKeys(value, where, {"batch_size", "num_samples", "phases", "seq_len"});
  static const std::vector<std::string> kPhases = {"fwd", "fwd_bwd", "train_step"};
  ThroughputPlan plan;
  const Value& lengths = RequireMember(value, where, "seq_len");
  if (!lengths.is_array() || lengths.as_array().empty()) {
    throw ConfigError(where + "/seq_len", "expected a list of lengths, such as [128, 512]");
  }
  for (const Value& length : lengths.as_array()) {
    plan.seq_len.push_back(
        ReadInt(length, where + "/seq_len/" + std::to_string(plan.seq_len.size()), 1));
  }
  if (const Value* v = value.Find("batch_size")) {
    plan.batch_size = ReadInt(*v, where + "/batch_size", 1);
  }
  if (const Value* v = value.Find("num_samples")) {
    plan.num_samples = ReadInt(*v, where + "/num_samples", 3);
  }
  plan.phases = {"fwd", "fwd_bwd"};
  if (const Value* v = value.Find("phases")) {
    if (!v->is_array() || v->as_array().empty()) {
      throw ConfigError(where + "/phases", "expected a list of phases: fwd, fwd_bwd, train_step");
    }
    plan.phases.clear();
    for (const Value& phase : v->as_array()) {
      const std::string place = where + "/phases/" + std::to_string(plan.phases.size());
      const std::string name = ReadName(phase, place);
      if (std::find(kPhases.begin(), kPhases.end(), name) == kPhases.end()) {
        throw ConfigError(place, UnknownName("phase", name, kPhases));
      }
      plan.phases.push_back(name);
    }
  }
  return plan;
}

std::vector<std::uint64_t> ParseSeeds(const Value* value) {
  std::int64_t count = 1;
  std::int64_t base = 0;
  if (value) {
    RequireKnownKeys(*value, "/seeds", {"base", "count"});
    if (const Value* v = value->Find("count")) count = ReadInt(*v, "/seeds/count", 1);
    if (const Value* v = value->Find("base")) base = ReadInt(*v, "/seeds/base", 0);
  }
  std::vector<std::uint64_t> seeds;
  for (std::int64_t i = 0; i < count; ++i) seeds.push_back(static_cast<std::uint64_t>(base + i));
  return seeds;
}

// --- sweep -----------------------------------------------------------------------------------

struct SweepPoint {
  Object document;                                        // with the point's values in place
  std::vector<std::pair<std::string, std::string>> axes;  // path and text, for the cell's name
};

// Short text of a swept value: a mixer's name and options, the items of a list joined by "+", a
// number, else canonical JSON.
std::string AxisText(const Value& value) {
  if (value.is_string()) return value.as_string();
  if (value.is_array()) {
    std::string text;
    for (const Value& item : value.as_array()) text += (text.empty() ? "" : "+") + AxisText(item);
    return text;
  }
  if (const Value* pattern = value.Find("pattern")) return AxisText(*pattern);  // names its layers
  if (const Value* name = value.Find("name"); name && name->is_string()) {
    std::string text = name->as_string();
    for (const auto& [key, item] : value.as_object()) {
      if (key != "name") text += "," + key + "=" + AxisText(item);
    }
    return text;
  }
  return reports::DumpJson(value);
}

void RequireSweepable(const std::string& path, const std::string& where) {
  static const std::vector<std::string> kRoots = {"model", "task", "train"};
  const std::string root = path.substr(0, path.find('.'));
  if (root == path || std::find(kRoots.begin(), kRoots.end(), root) == kRoots.end()) {
    throw ConfigError(where,
                      "only model.*, task.* and train.* can be swept; write the full "
                      "dotted path, such as train.lr");
  }
}

const Array& RequireAxis(const Value& values, const std::string& where) {
  if (!values.is_array() || values.as_array().empty()) {
    throw ConfigError(where, "expected a list of values with at least one entry");
  }
  return values.as_array();
}

bool Excluded(const SweepPoint& point, const Value& rules) {
  for (const Value& rule : rules.as_array()) {
    const bool all_match =
        std::all_of(rule.as_object().begin(), rule.as_object().end(), [&](const auto& condition) {
          const Value* found = FindPath(point.document, condition.first);
          return found && *found == condition.second;
        });
    if (all_match) return true;
  }
  return false;
}

std::vector<SweepPoint> ExpandSweep(const Object& document) {
  std::vector<SweepPoint> points = {{document, {}}};
  const auto found = document.find("sweep");
  if (found == document.end()) return points;
  const Value& sweep = found->second;
  RequireKnownKeys(sweep, "/sweep", {"exclude", "grid", "zip"});

  // Multiplies the points by positions 0..count-1 of axes that move together.
  const auto multiply = [&](const std::vector<std::pair<std::string, const Array*>>& axes,
                            std::size_t count) {
    std::vector<SweepPoint> next;
    for (const SweepPoint& point : points) {
      for (std::size_t i = 0; i < count; ++i) {
        SweepPoint grown = point;
        for (const auto& [path, values] : axes) {
          SetPath(grown.document, path, (*values)[i], "/sweep");
          grown.axes.emplace_back(path, AxisText((*values)[i]));
        }
        next.push_back(std::move(grown));
      }
    }
    if (next.size() > kMaxCells) {
      throw ConfigError("/sweep",
                        "more than " + std::to_string(kMaxCells) + " cells; split the suite");
    }
    points = std::move(next);
  };

  if (const Value* grid = sweep.Find("grid")) {
    if (!grid->is_object()) throw ConfigError("/sweep/grid", "expected an object of path: values");
    for (const auto& [path, values] : grid->as_object()) {
      const std::string where = "/sweep/grid/" + path;
      RequireSweepable(path, where);
      const Array& axis = RequireAxis(values, where);
      multiply({{path, &axis}}, axis.size());
    }
  }
  if (const Value* zip = sweep.Find("zip")) {
    if (!zip->is_object() || zip->as_object().empty()) {
      throw ConfigError("/sweep/zip", "expected an object of path: values");
    }
    std::vector<std::pair<std::string, const Array*>> axes;
    for (const auto& [path, values] : zip->as_object()) {
      const std::string where = "/sweep/zip/" + path;
      RequireSweepable(path, where);
      const Array& axis = RequireAxis(values, where);
      if (!axes.empty() && axis.size() != axes.front().second->size()) {
        throw ConfigError(where, "zipped lists need equal lengths");
      }
      axes.emplace_back(path, &axis);
    }
    multiply(axes, axes.front().second->size());
  }
  if (const Value* rules = sweep.Find("exclude")) {
    if (!rules->is_array()) throw ConfigError("/sweep/exclude", "expected a list of objects");
    for (std::size_t i = 0; i < rules->as_array().size(); ++i) {
      const Value& rule = rules->as_array()[i];
      if (!rule.is_object() || rule.as_object().empty()) {
        throw ConfigError("/sweep/exclude/" + std::to_string(i),
                          "expected an object such as {\"train.lr\": 0.01}");
      }
    }
    std::erase_if(points, [&](const SweepPoint& point) { return Excluded(point, *rules); });
  }
  return points;
}

// --- identities ------------------------------------------------------------------------------

Value SegmentsToValue(const std::vector<Segment>& segments) {
  Array array;
  for (const Segment& segment : segments) {
    Object object = segment.params.as_object();
    object["num_examples"] = segment.num_examples;
    array.emplace_back(std::move(object));
  }
  return array;
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

Value TaskToValue(const TaskPlan& task) {
  return Object{{"name", task.name},
                {"data_seed", std::to_string(task.data_seed)},
                {"train", SegmentsToValue(task.train)},
                {"validation", SegmentsToValue(task.validation)},
                {"test", SegmentsToValue(task.test)}};
}

Value ThroughputToValue(const ThroughputPlan& plan) {
  Array lengths(plan.seq_len.begin(), plan.seq_len.end());
  Array phases(plan.phases.begin(), plan.phases.end());
  return Object{{"seq_len", lengths},
                {"batch_size", plan.batch_size},
                {"phases", phases},
                {"num_samples", plan.num_samples}};
}

// Collects the names of all mixers in a (nested) mixer configuration.
void CollectMixerNames(const Value& value, const models::MixerRegistry& mixers,
                       std::set<std::string>& names) {
  if (value.is_array()) {
    for (const Value& item : value.as_array()) CollectMixerNames(item, mixers, names);
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.as_object()) {
      if (key == "name" && item.is_string() && mixers.Contains(item.as_string())) {
        names.insert(item.as_string());
      }
      CollectMixerNames(item, mixers, names);
    }
  }
}

Value CodeHashes(const Cell& cell, const Registries& registries) {
  std::set<std::string> mixer_names;
  CollectMixerNames(cell.model, registries.mixers, mixer_names);
  Object mixers;
  for (const std::string& name : mixer_names) mixers[name] = models::MixerCodeHash(name);
  Sha256 cores;
  for (const std::string& name : registries.cores.Names())
    cores.Update(kernels::CoreCodeHash(name));
  return Object{{"task", tasks::TaskCodeHash(cell.task.name)},
                {"mixers", mixers},
                {"cores", cores.Hex()},
                {"backbone", models::BackboneCodeHash(cell.model.Find("backbone")->as_string())},
                {"shared", SharedCodeHash()}};
}

class DataHasher {
 public:
  explicit DataHasher(const Registries& registries) : registries_(registries) {}

  Value Hash(const TaskPlan& plan, std::uint64_t train_seed) {
    return Object{
        {"train", Split(plan, plan.train, train_seed, tasks::Split::kTrain)},
        {"validation", Split(plan, plan.validation, plan.data_seed, tasks::Split::kValidation)},
        {"test", Split(plan, plan.test, plan.data_seed, tasks::Split::kTest)}};
  }

 private:
  Value Split(const TaskPlan& plan, const std::vector<Segment>& segments, std::uint64_t seed,
              tasks::Split split) {
    const std::string key = plan.name + reports::DumpJson(SegmentsToValue(segments)) + ":" +
                            std::to_string(seed) + ":" + std::to_string(static_cast<int>(split));
    auto [entry, inserted] = known_.try_emplace(key);
    if (inserted) {
      Sha256 hash;
      for (const Segment& segment : segments) {
        const auto task =
            registries_.tasks.Find(plan.name, "/task/name").create(segment.params, "/task");
        hash.Update(HashSamples(*task, seed, split, kHashedSamples));
      }
      entry->second = "sha256:" + hash.Hex();
    }
    return entry->second;
  }

  const Registries& registries_;
  std::map<std::string, std::string> known_;
};

void SetIdentity(Cell& cell, const Registries& registries, DataHasher& hasher) {
  cell.data_hash = hasher.Hash(cell.task, cell.seed);
  Value train = TrainFields().Write(cell.train);
  train.as_object().erase("eval_batch_size");  // changes speed, not results
  Object identity = {{"kind", cell.kind == CellKind::kTrain ? "train" : "throughput"},
                     {"task", TaskToValue(cell.task)},
                     {"model", cell.model},
                     {"train", train},
                     {"device_type", cell.device_type},
                     {"code", CodeHashes(cell, registries)}};
  if (cell.kind == CellKind::kThroughput)
    identity["throughput"] = ThroughputToValue(cell.throughput);
  cell.group_id = Sha256Hex(reports::DumpJson(identity));
  identity["seed"] = std::to_string(cell.seed);
  identity["data_hash"] = cell.data_hash;
  cell.run_id = Sha256Hex(reports::DumpJson(identity));
}

// Builds the model without memory for its weights, so that impossible sizes are found now.
void CheckModel(const Cell& cell, const Registries& registries) {
  const std::string name = cell.model.Find("backbone")->as_string();
  const auto& entry = registries.backbones.Find(name, "/model/backbone");
  Value config = cell.model;
  config.as_object().erase("backbone");
  models::ParameterSet parameters(0, entry.init_policy, entry.num_layers(config), at::kMeta,
                                  at::kFloat);
  const auto segment = cell.task.train.front();
  const auto task = registries.tasks.Find(cell.task.name, "/task/name").create(segment.params, "");
  entry.create(config, "/model",
               {.vocab_size = task->shape().vocab_size,
                .max_seq_len = MaxSeqLen(cell.task, registries),
                .mixers = &registries.mixers},
               parameters);
}

void ApplyLimit(TaskPlan& task, std::int64_t limit) {
  if (limit <= 0) return;
  for (auto* segments : {&task.validation, &task.test}) {
    for (Segment& segment : *segments) segment.num_examples = std::min(segment.num_examples, limit);
  }
}

void CheckTraining(const Cell& cell) {
  const auto num_online =
      std::count_if(cell.task.train.begin(), cell.task.train.end(),
                    [](const Segment& segment) { return segment.num_examples == 0; });
  const bool online = num_online > 0;
  if (online && cell.train.steps_per_epoch == 0) {
    throw ConfigError("/train/steps_per_epoch",
                      "online data (num_examples 0) have no end; say how many steps make an epoch");
  }
  if (online && num_online != static_cast<std::ptrdiff_t>(cell.task.train.size())) {
    throw ConfigError("/task/train/num_examples",
                      "0 (online) is for all segments or for none; give every segment a size");
  }
  if (!online && cell.train.steps_per_epoch != 0) {
    throw ConfigError("/train/steps_per_epoch",
                      "is counted from num_examples and batch_size for finite data; leave it out");
  }
}

// "mqar/gla/d_model=64,lr=0.003": the form that reports split into task, mixer and variant.
std::string CellNameOf(const SweepPoint& point, const Cell& cell) {
  std::string mixer = cell.model.Find("sequence_mixer")->Find("name")->as_string();
  std::string variant;
  for (const auto& [path, text] : point.axes) {
    if (path == "model.sequence_mixer") {
      mixer = text;
    } else {
      variant += (variant.empty() ? "" : ",") + path.substr(path.rfind('.') + 1) + "=" + text;
    }
  }
  return cell.task.name + "/" + mixer + (variant.empty() ? "" : "/" + variant);
}

}  // namespace

std::vector<std::string> BuiltInSuiteNames() {
  std::vector<std::string> names;
  for (const auto& [name, text] : EmbeddedSuites()) names.emplace_back(name);
  return names;
}

std::string ReadSuiteText(const std::string& name_or_path) {
  for (const auto& [name, text] : EmbeddedSuites()) {
    if (name == name_or_path) return std::string(text);
  }
  const bool looks_like_name =
      name_or_path.find('/') == std::string::npos && name_or_path.find('.') == std::string::npos;
  if (looks_like_name && !std::filesystem::exists(name_or_path)) {
    throw ConfigError("", UnknownName("suite", name_or_path, BuiltInSuiteNames()) +
                              "; or give the path of a suite file");
  }
  return reports::ReadFile(name_or_path, kMaxSuiteBytes);
}

std::int64_t MaxSeqLen(const TaskPlan& task, const Registries& registries) {
  const auto& entry = registries.tasks.Find(task.name, "/task/name");
  std::int64_t longest = 0;
  for (const auto* segments : {&task.train, &task.validation, &task.test}) {
    for (const Segment& segment : *segments) {
      longest = std::max(longest, entry.create(segment.params, "/task")->shape().seq_len);
    }
  }
  return longest;
}

Suite ParseSuite(std::string_view text, const SuiteOverrides& overrides,
                 const Registries& registries) {
  Value parsed = reports::ParseJson(text);
  if (!parsed.is_object()) {
    throw ConfigError("", "a suite is a JSON object; see docs/CONFIG.md");
  }
  Object& document = parsed.as_object();
  for (const auto& [path, value] : overrides.set) ApplySetting(document, path, value);
  RequireKnownKeys(document, "",
                   {"$schema", "description", "model", "name", "schema_version", "seeds", "sweep",
                    "task", "throughput", "train"});
  if (const Value* version = parsed.Find("schema_version")) {
    const std::string v = ReadName(*version, "/schema_version");
    if (v.substr(0, v.find('.')) != "1") {
      throw ConfigError("/schema_version", "this program reads version 1.x, not '" + v + "'");
    }
  }
  Suite suite;
  suite.name = ReadName(RequireMember(parsed, "", "name"), "/name");
  if (const Value* d = parsed.Find("description")) suite.description = ReadName(*d, "/description");
  RequireMember(parsed, "", "task");
  RequireMember(parsed, "", "model");
  suite.config = parsed;

  std::vector<std::uint64_t> seeds = ParseSeeds(parsed.Find("seeds"));
  if (!overrides.seeds.empty()) seeds = overrides.seeds;
  const Value* throughput = parsed.Find("throughput");
  const ThroughputPlan throughput_plan =
      throughput ? ParseThroughput(*throughput) : ThroughputPlan{};

  DataHasher hasher(registries);
  std::set<std::string> checked_models, timed_models, run_ids;
  for (const SweepPoint& point : ExpandSweep(document)) {
    Cell cell;
    cell.task = ParseTask(point.document.at("task"), registries);
    ApplyLimit(cell.task, overrides.limit);
    cell.limited = overrides.limit > 0;
    cell.device_type = overrides.device_type;
    cell.model = ResolveModel(point.document.at("model"), registries);
    const auto train = point.document.find("train");
    cell.train =
        ParseTrainConfig(train == point.document.end() ? Value(Object{}) : train->second, "/train");
    CheckTraining(cell);
    if (cell.train.dtype == Dtype::kTf32 && cell.device_type == "cpu") {
      throw ConfigError("/train/dtype", "tf32 needs --device cuda; use fp32 or bf16 on the CPU");
    }
    const std::string model_key = reports::DumpJson(cell.model);
    if (checked_models.insert(model_key + std::to_string(MaxSeqLen(cell.task, registries)))
            .second) {
      CheckModel(cell, registries);
    }
    cell.name = CellNameOf(point, cell);
    for (const std::uint64_t seed : seeds) {
      Cell seeded = cell;
      seeded.seed = seed;
      SetIdentity(seeded, registries, hasher);
      if (run_ids.insert(seeded.run_id).second) suite.cells.push_back(std::move(seeded));
    }
    // Speed depends on no rate and no seed; the task and the batch matter to a whole step alone.
    std::string timed_key = model_key + std::string(NameOf(cell.train.dtype));
    const auto& phases = throughput_plan.phases;
    if (std::find(phases.begin(), phases.end(), "train_step") != phases.end()) {
      timed_key +=
          reports::DumpJson(TaskToValue(cell.task)) + std::to_string(cell.train.batch_size);
    }
    if (throughput && timed_models.insert(timed_key).second) {
      Cell timed = cell;
      timed.kind = CellKind::kThroughput;
      timed.throughput = throughput_plan;
      SetIdentity(timed, registries, hasher);
      suite.cells.push_back(std::move(timed));
    }
  }
  return suite;
}

Value CellToValue(const Cell& cell) {
  Object object = {{"kind", cell.kind == CellKind::kTrain ? "train" : "throughput"},
                   {"name", cell.name},
                   {"seed", std::to_string(cell.seed)},
                   {"task", TaskToValue(cell.task)},
                   {"model", cell.model},
                   {"train", TrainFields().Write(cell.train)},
                   {"device_type", cell.device_type},
                   {"limited", cell.limited},
                   {"run_id", cell.run_id},
                   {"group_id", cell.group_id},
                   {"data_hash", cell.data_hash}};
  if (cell.kind == CellKind::kThroughput) object["throughput"] = ThroughputToValue(cell.throughput);
  return object;
}

Cell CellFromValue(const Value& value) {
  const Object& object = value.as_object();
  Cell cell;
  cell.kind = object.at("kind").as_string() == "train" ? CellKind::kTrain : CellKind::kThroughput;
  cell.name = object.at("name").as_string();
  cell.seed = std::stoull(object.at("seed").as_string());
  const Object& task = object.at("task").as_object();
  cell.task.name = task.at("name").as_string();
  cell.task.data_seed = std::stoull(task.at("data_seed").as_string());
  cell.task.train = SegmentsFromValue(task.at("train"));
  cell.task.validation = SegmentsFromValue(task.at("validation"));
  cell.task.test = SegmentsFromValue(task.at("test"));
  cell.model = object.at("model");
  cell.train = ParseTrainConfig(object.at("train"), "/train");
  cell.device_type = object.at("device_type").as_string();
  cell.limited = object.at("limited").as_bool();
  cell.run_id = object.at("run_id").as_string();
  cell.group_id = object.at("group_id").as_string();
  cell.data_hash = object.at("data_hash");
  if (cell.kind == CellKind::kThroughput)
    cell.throughput = ParseThroughput(object.at("throughput"));
  return cell;
}

}  // namespace mixerbench::harness
