// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/suite.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness/suite/cell_name.h"
#include "harness/suite/competition.h"
#include "harness/suite/config_errors.h"
#include "harness/suite/data.h"
#include "harness/suite/identity.h"
#include "harness/suite/model_checks.h"
#include "harness/suite/read_document.h"
#include "harness/suite/section_forms.h"
#include "harness/suite/step_count.h"
#include "harness/suite/sweep.h"
#include "harness/suite/training_uses.h"
#include "io/dataset_manifest.h"
#include "io/json.h"
#include "io/read_value.h"
#include "reports/summary/axis_keys.h"
#include "reports/summary/select.h"

namespace mixerbench::harness {
namespace {

std::vector<std::uint64_t> ParseSeeds(const Value* value) {
  std::int64_t count = 1;
  std::int64_t base = 0;
  if (value) {
    SeedsForm().check(*value, "/seeds");
    if (const Value* v = value->Find("count")) count = v->as_int();
    if (const Value* v = value->Find("base")) base = v->as_int();
  }
  std::vector<std::uint64_t> seeds;
  if (base > INT64_MAX - count) throw ConfigError("/seeds/base", "the last seed needs 64 bits");
  for (std::int64_t i = 0; i < count; ++i) seeds.push_back(static_cast<std::uint64_t>(base + i));
  return seeds;
}

// "/train" with what a preset says of it.
Value TrainOptions(const Object& document, const std::optional<tasks::FoundPreset>& preset) {
  const auto found = document.find("train");
  Value train = found == document.end() ? Value(Object{}) : found->second;
  if (preset && train.is_object()) {
    train.as_object().try_emplace("loss_mode", std::string(NameOf(preset->preset.train_labels)));
  }
  return train;
}

// Takes the backbone's name out of "/model", and what {"name": ..., options} says of it to the
// other options: a sweep over backbones gives each those that the others do not have.
std::string TakeBackbone(Object& model, const std::string& where) {
  const auto found = model.find("backbone");
  if (found == model.end()) return "zoology";
  const Value backbone = found->second;
  const std::string place = where + "/backbone";
  model.erase(found);
  if (!backbone.is_object()) return io::ReadName(backbone, place);
  for (const auto& [option, value] : backbone.as_object()) {
    if (option == "name" || model.try_emplace(option, value).second) continue;
    throw ConfigError(place + "/" + option, "stands in " + where + " too; leave one of them out");
  }
  return io::ReadName(io::RequireMember(backbone, place, "name"), place + "/name");
}

// Whether it cut anything.
bool ApplyLimit(TaskPlan& task, std::int64_t limit) {
  if (limit <= 0) return false;
  bool is_cut = false;
  for (auto* segments : {&task.validation, &task.test}) {
    for (Segment& segment : *segments) {
      is_cut = is_cut || segment.num_examples > limit;
      segment.num_examples = std::min(segment.num_examples, limit);
    }
  }
  return is_cut;
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
  CheckDataSizes(cell.task);
  CountSteps(cell.task, cell.train);
}

// Weights that are zero everywhere would train nothing in the end.
void CheckWeightedLoss(const Cell& cell, const Registries& registries) {
  if (cell.train.loss_mode != LossMode::kWeighted) return;
  for (const Segment& segment : cell.task.train) {
    const auto task =
        registries.tasks.Find(cell.task.name, "/task").create(segment.params, "/task");
    if (HasAnswersInInput(*task, SampleKey(*task, /*seed=*/0, tasks::Split::kTrain))) continue;
    throw ConfigError(
        "/train/loss_mode",
        "'weighted' weighs answers by how far back they stand in the input, and those "
        "of '" +
            cell.task.name + "' stand nowhere in it; take 'all_tokens'");
  }
}

void CheckDtype(const Cell& cell) {
  if (cell.train.dtype != Dtype::kTf32 || cell.device_type != "cpu") return;
  throw ConfigError("/train/dtype", "tf32 needs --device cuda; use fp32 or bf16 on the CPU");
}

// What the time of a training's step depends on besides model and dtype: its data, and what it
// does with them.
Value WorkOfStep(const Cell& cell) {
  const TrainConfig& train = cell.train;
  return Object{{"task", TaskPlanToValue(cell.task)},
                {"batch_size", train.batch_size},
                {"loss_mode", std::string(NameOf(train.loss_mode))},
                {"auxiliary_losses", train.auxiliary_losses},
                {"clips", train.grad_clip > 0},
                {"has_ssm_lr", train.ssm_lr > 0},
                {"decay_all_parameters", train.decay_all_parameters}};
}

// The cells of a suite, collected point by point of its sweep: one for each seed, those that use
// its training, and one that is timed for each model, dtype and whatever else its time depends on.
// All points are checked before any cell is identified, which draws samples of its data.
class CellCollector {
 public:
  // `overrides` and `registries` must outlive it.
  CellCollector(const Value& document, const SuiteOverrides& overrides,
                const Registries& registries)
      : overrides_(overrides),
        registries_(registries),
        identifier_(registries),
        seeds_(ParseSeeds(document.Find("seeds"))),
        uses_(ParseTrainingUses(document)),
        axis_keys_(reports::AxisKeys(document)),
        competitions_(reports::SelectedOver(document)) {
    if (!overrides.seeds.empty()) seeds_ = overrides.seeds;
    if (HasFreshSeeds(document)) phase_ = reports::CellPhase::kSelection;
    if (const Value* throughput = document.Find("throughput")) {
      throughput_ = ParseThroughputPlan(*throughput);
      CheckHasEffect(*throughput_, *throughput);
    }
  }

  void RequireRoomFor(std::size_t num_points) const {
    const std::size_t num_kinds = 1 + uses_.size();  // of cells for each point and seed
    if (num_points == 0 || seeds_.size() <= kMaxCells / num_points / num_kinds) return;
    const std::string with_uses =
        uses_.empty() ? "" : ", evaluated or analysed " + std::to_string(uses_.size()) + " times,";
    throw ConfigError("/seeds", std::to_string(num_points) + " points of the sweep with " +
                                    std::to_string(seeds_.size()) + " seeds" + with_uses +
                                    " are more than " + std::to_string(kMaxCells) +
                                    " cells; split the suite");
  }

  // Throws ConfigError for what is wrong with the point.
  void Add(const SweepPoint& point) {
    const Cell cell = MakeCell(point);
    checked_.push_back(cell);
    competitions_.Add(point, cell);
    for (const TrainingUse& use : uses_) AddUse(cell, use, point.document.at("task"));
    if (throughput_) AddTimed(cell);
  }

  // Throws ConfigError when points among which the suite chooses cannot compete.
  void CheckCompetitions() const { competitions_.Require(); }

  // Of the points that were added, with their seeds and ids. Throws ConfigError when two are one.
  std::vector<Cell> Identify() {
    for (const Cell& cell : checked_) {
      if (cell.kind == CellKind::kThroughput) {
        identifier_.Identify(cells_.emplace_back(cell));
      } else {
        AddSeeds(cell);
      }
    }
    return std::move(cells_);
  }

 private:
  // Without a seed and without ids.
  Cell MakeCell(const SweepPoint& point) {
    Cell cell;
    const Value& task = point.document.at("task");
    std::string label;
    ErrorCollector errors;  // of sections that say nothing of each other
    errors.Try([&] {
      cell.task = ParseTaskPlan(task, registries_.tasks);
      cell.limited = ApplyLimit(cell.task, overrides_.limit);
    });
    errors.Try([&] {
      Value model = point.document.at("model");
      label = TakeLabel(model);
      cell.model = ResolveModel(model, registries_);
    });
    errors.Try([&] {
      // Of a wrong task, which is told already, no preset is known.
      const auto preset = errors.is_empty() ? PresetOf(task, registries_.tasks) : std::nullopt;
      cell.train = ParseTrainConfig(TrainOptions(point.document, preset), "/train");
    });
    errors.ThrowAny();
    cell.device_type = overrides_.device_type;
    CheckTaskSuitsModel(cell, registries_);
    CheckTraining(cell);
    CheckWeightedLoss(cell, registries_);
    CheckPieces(cell, registries_);
    CheckDtype(cell);
    const std::string checked = io::DumpJson(cell.model) + std::to_string(cell.task.max_seq_len) +
                                io::DumpJson(cell.train.auxiliary_losses) +
                                (cell.train.ssm_lr > 0 ? "ssm_lr" : "");
    if (checked_models_.insert(checked).second) CheckModel(cell, registries_);
    cell.name = CellNameOf(point, cell, label, axis_keys_);
    RequireOwnName(cell, label);
    return cell;
  }

  // A label may be the name of no other mixer: reports would show two as one.
  void RequireOwnName(const Cell& cell, const std::string& label) {
    const auto [known, is_new] = labels_.try_emplace(cell.name, label);
    if (is_new || (label.empty() && known->second.empty())) return;
    throw ConfigError("/model/sequence_mixer/label", "'" + (label.empty() ? known->second : label) +
                                                         "' names two mixers of one setting");
  }

  // Whether other seeds than those of the sweep are reported; they may be none of the sweep's.
  bool HasFreshSeeds(const Value& document) const {
    const auto fresh = reports::SelectRuleOf(document).fresh_seeds;
    for (const std::uint64_t seed : seeds_) {
      if (std::find(fresh.begin(), fresh.end(), seed) == fresh.end()) continue;
      throw ConfigError(
          "/sweep/select/reseed/base",
          "seed " + std::to_string(seed) +
              " of the sweep would be a fresh one too: " + std::to_string(fresh.front()) + ".." +
              std::to_string(fresh.back()) + " are for what is reported alone");
    }
    return !fresh.empty();
  }

  // Points that differ in what is tested alone share a training, and with it what uses it.
  void AddSeeds(const Cell& cell) {
    for (const std::uint64_t seed : seeds_) {
      Cell seeded = cell;
      seeded.seed = seed;
      seeded.phase = phase_;
      identifier_.Identify(seeded);
      const auto [known, is_new] = names_.try_emplace(seeded.run_id, seeded.name);
      if (is_new) {
        cells_.push_back(std::move(seeded));
      } else if (!NamesTraining(cell.kind)) {
        throw ConfigError("/sweep", "'" + known->second + "' and '" + seeded.name +
                                        "' are one cell; leave one of them out");
      }
    }
  }

  void AddUse(const Cell& trained, const TrainingUse& use, const Value& task) {
    Cell cell = UseTraining(trained, use, task, registries_.tasks);
    cell.limited = ApplyLimit(cell.task, overrides_.limit);
    CheckDataSizes(cell.task);
    CheckPieces(cell, registries_);
    checked_.push_back(std::move(cell));
  }

  // Speed depends on no rate and no seed; what a whole step does matters to the phase train_step
  // alone.
  void AddTimed(const Cell& cell) {
    std::string key = io::DumpJson(cell.model) + std::string(NameOf(cell.train.dtype));
    if (throughput_->Measures("train_step")) {
      key += io::DumpJson(WorkOfStep(cell));
    }
    if (!timed_models_.insert(key).second) return;
    CheckPhases(cell, *throughput_, registries_);
    Cell timed = cell;
    timed.kind = CellKind::kThroughput;
    timed.throughput = *throughput_;
    checked_.push_back(std::move(timed));
  }

  const SuiteOverrides& overrides_;
  const Registries& registries_;
  CellIdentifier identifier_;
  std::vector<std::uint64_t> seeds_;
  std::vector<TrainingUse> uses_;
  reports::CellPhase phase_ = reports::CellPhase::kNone;
  std::optional<ThroughputPlan> throughput_;
  std::map<std::string, std::string> axis_keys_;
  CompetitionCheck competitions_;
  std::vector<Cell> checked_;  // without seeds and ids
  std::vector<Cell> cells_;
  std::set<std::string> checked_models_, timed_models_;
  std::map<std::string, std::string> names_;   // of the cells by their ids
  std::map<std::string, std::string> labels_;  // of mixers, perhaps none, by names of cells
};

}  // namespace

Value ResolveModel(const Value& model, const Registries& registries) {
  const std::string where = "/model";
  io::RequireObject(model, where);
  Object config = model.as_object();
  const std::string backbone = TakeBackbone(config, where);
  const auto& entry = registries.backbones.Find(backbone, where + "/backbone");
  Value resolved = entry.resolve(config, where, registries.mixers);
  resolved.as_object()["backbone"] = backbone;
  return resolved;
}

void RequireSchemaVersion(const Value& document) {
  const Value* version = document.Find("schema_version");
  if (version == nullptr) return;
  const std::string text = io::ReadName(*version, "/schema_version");
  if (text.substr(0, text.find('.')) == "1") return;
  throw ConfigError("/schema_version", "this program reads version 1.x, not '" + text + "'");
}

std::string ReadFolderName(const Value& value, const std::string& where) {
  const std::string name = io::ReadName(value, where);
  if (io::IsSafeFileName(name)) return name;
  throw ConfigError(where, "'" + name.substr(0, 40) +
                               "' names no folder everywhere: letters, digits, '.', '_' and '-', "
                               "at most 128, no dot in front");
}

namespace {

// A suite without cells, and what they are made of.
struct CheckedSuite {
  Suite suite;
  CellCollector cells;
};

// Throws ConfigErrors for all that is met. `overrides` and `registries` must outlive the result.
CheckedSuite CheckDocument(const Value& document, const SuiteOverrides& overrides,
                           const Registries& registries) {
  const Value parsed = ReadDocument(document, overrides, registries.mixers);
  Suite suite;
  std::optional<CellCollector> cells;
  ErrorCollector errors;
  errors.Try([&] { suite.name = ReadFolderName(io::RequireMember(parsed, "", "name"), "/name"); });
  errors.Try([&] {
    if (const Value* description = parsed.Find("description")) {
      suite.description = io::ReadName(*description, "/description");
    }
  });
  for (const char* section : {"task", "model"}) {
    errors.Try([&] { io::RequireMember(parsed, "", section); });
  }
  if (parsed.Find("task") == nullptr || parsed.Find("model") == nullptr) errors.ThrowAny();
  errors.Try([&] {
    const std::vector<SweepPoint> points = ExpandSweep(parsed.as_object());
    cells.emplace(parsed, overrides, registries);
    cells->RequireRoomFor(points.size());
    ErrorCollector of_points;
    for (const SweepPoint& point : points) {
      of_points.Try([&] { cells->Add(point); });
      if (of_points.is_full()) break;
    }
    of_points.ThrowAny();
    cells->CheckCompetitions();
  });
  errors.ThrowAny();
  suite.config = parsed;
  return {std::move(suite), std::move(*cells)};
}

}  // namespace

namespace {

// Whether the reduced form is to be checked too: of a suite as it was written, since what the
// command line sets may not suit it.
bool HasUnusedSmoke(const Value& document, const SuiteOverrides& overrides) {
  return !overrides.smoke && document.Find("smoke") != nullptr &&
         std::all_of(overrides.set.begin(), overrides.set.end(),
                     [](const auto& setting) { return setting.first == "name"; });
}

}  // namespace

Suite ParseSuite(std::string_view text, const SuiteOverrides& overrides,
                 const Registries& registries) {
  const Value document = io::ParseJson(text);
  SuiteOverrides used = overrides;
  const auto check = [&](const Value& rest, const SuiteOverrides& rest_overrides) {
    return CheckDocument(rest, rest_overrides, registries);
  };
  try {
    CheckedSuite checked = check(document, used);
    checked.suite.cells = checked.cells.Identify();
    if (HasUnusedSmoke(document, overrides)) {
      used = {};
      used.smoke = true;
      used.device_type = overrides.device_type;
      check(document, used);
    }
    return std::move(checked.suite);
  } catch (const ConfigError& error) {
    ThrowAllErrors(text, document, used, check, error);
  }
}

}  // namespace mixerbench::harness
