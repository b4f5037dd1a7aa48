// SPDX-License-Identifier: Apache-2.0
#include "reports/result/result_json.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "io/json.h"
#include "io/object_reader.h"
#include "reports/result/plan_json.h"

namespace mixerbench::reports {
namespace {

constexpr std::int64_t kLargestExactInteger = std::int64_t{1} << 53;  // of readers with doubles

Value IntOrNull(const std::optional<std::int64_t>& v) { return v ? Value(*v) : Value(); }
Value Name(CellState state) { return std::string(NameOf(state)); }

std::optional<Interval> IntervalFrom(const io::ObjectReader& reader, std::string_view key) {
  if (reader.IsNull(key)) return std::nullopt;
  const io::ObjectReader interval = reader.Nested(key);
  return Interval{.method = interval.String("method"),
                  .level = interval.Number("level"),
                  .low = interval.Number("low"),
                  .high = interval.Number("high")};
}

std::vector<Guess> GuessesFrom(const io::ObjectReader& reader) {
  if (!reader.Has("guesses")) return {};
  return reader.List("guesses", [](const Value& value, const std::string& where) {
    const io::ObjectReader guess(value, where);
    return Guess{.name = guess.String("name"), .accuracy = guess.Number("accuracy")};
  });
}

Value AccuracyToValue(const AccuracyRow& row) {
  return Object{{"axes", row.axes},
                {"slice", TextOrNull(row.slice)},
                {"bucket", TextOrNull(row.bucket)},
                {"state", Name(row.state)},
                {"reason", TextOrNull(row.reason)},
                {"num_sequences", row.num_sequences},
                {"num_scored", row.num_scored},
                {"num_correct", row.num_correct},
                {"accuracy", NumberOrNull(row.accuracy)},
                {"accuracy_per_example", NumberOrNull(row.accuracy_per_example)},
                {"accuracy_macro", NumberOrNull(row.accuracy_macro)},
                {"accuracy_macro_batched", NumberOrNull(row.accuracy_macro_batched)},
                {"sequence_accuracy", NumberOrNull(row.sequence_accuracy)},
                {"nll", NumberOrNull(row.nll)},
                {"ci_items", IntervalToValue(row.ci_items)},
                {"ci_sequences", IntervalToValue(row.ci_sequences)},
                {"chance", NumberOrNull(row.chance)},
                {"guesses", GuessesToValue(row.guesses)},
                {"ceiling", NumberOrNull(row.ceiling)},
                {"extrapolated", row.extrapolated}};
}

AccuracyRow AccuracyFromValue(const Value& value, const std::string& where) {
  const io::ObjectReader reader(value, where);
  const Value& axes = reader.Member("axes");
  [[maybe_unused]] const io::ObjectReader is_object(axes, reader.Pointer("axes"));  // or an error
  return {.axes = axes.as_object(),
          .slice = reader.StringOrEmpty("slice"),
          .bucket = reader.StringOrEmpty("bucket"),
          .state = reader.Enum<CellState>("state"),
          .reason = reader.StringOrEmpty("reason"),
          .num_sequences = reader.Int("num_sequences"),
          .num_scored = reader.Int("num_scored"),
          .num_correct = reader.Int("num_correct"),
          .accuracy = reader.OptionalNumber("accuracy"),
          .accuracy_per_example = reader.OptionalNumber("accuracy_per_example"),
          .accuracy_macro = reader.OptionalNumber("accuracy_macro"),
          .accuracy_macro_batched = reader.NewerNumber("accuracy_macro_batched"),
          .sequence_accuracy = reader.OptionalNumber("sequence_accuracy"),
          .nll = reader.OptionalNumber("nll"),
          .ci_items = IntervalFrom(reader, "ci_items"),
          .ci_sequences = IntervalFrom(reader, "ci_sequences"),
          .chance = reader.NumberOrNan("chance"),
          .guesses = GuessesFrom(reader),
          .ceiling = reader.NewerNumber("ceiling"),
          .extrapolated = reader.Bool("extrapolated")};
}

Value LearningToValue(const LearningPoint& point) {
  Object object = {{"step", point.step},
                   {"train_loss", NumberOrNull(point.train_loss)},
                   {"validation_accuracy", NumberOrNull(point.validation_accuracy)},
                   {"lr", NumberOrNull(point.lr)},
                   {"elapsed_s", NumberOrNull(point.elapsed_s)}};
  if (!point.auxiliary_losses.empty()) {
    Object losses;
    for (const auto& [name, loss] : point.auxiliary_losses) losses[name] = NumberOrNull(loss);
    object["auxiliary_losses"] = std::move(losses);
  }
  return object;
}

LearningPoint LearningFromValue(const Value& value, const std::string& where) {
  const io::ObjectReader reader(value, where);
  LearningPoint point{.step = reader.Int("step"),
                      .train_loss = reader.NumberOrNan("train_loss"),
                      .validation_accuracy = reader.OptionalNumber("validation_accuracy"),
                      .lr = reader.NumberOrNan("lr"),
                      .elapsed_s = reader.NumberOrNan("elapsed_s")};
  if (!reader.Has("auxiliary_losses")) return point;
  const io::ObjectReader losses = reader.Nested("auxiliary_losses");
  for (const auto& [name, loss] : reader.Member("auxiliary_losses").as_object()) {
    point.auxiliary_losses[name] = losses.NumberOrNan(name);
  }
  return point;
}

Value ThroughputToValue(const ThroughputRow& row) {
  Array samples;
  for (const double sample : row.samples_ms) samples.push_back(NumberOrNull(sample));
  return Object{{"phase", row.phase},
                {"batch_size", row.batch_size},
                {"seq_len", row.seq_len},
                {"dtype", row.dtype},
                {"unit", "ms"},
                {"clock", row.clock},
                {"state", Name(row.state)},
                {"reason", TextOrNull(row.reason)},
                {"warmup_iterations", row.warmup_iterations},
                {"samples", std::move(samples)},
                {"median", NumberOrNull(row.median_ms)},
                {"spread", IntervalToValue(row.spread_ms)},
                {"tokens_per_second", NumberOrNull(row.tokens_per_second)},
                {"peak_memory_bytes", IntOrNull(row.peak_memory_bytes)},
                {"parity_check", row.parity_check},
                {"parity", ParityToValue(row.parity)},
                {"execution", TextOrNull(row.execution)}};
}

ThroughputRow ThroughputFromValue(const Value& value, const std::string& where) {
  const io::ObjectReader reader(value, where);
  if (const std::string unit = reader.String("unit"); unit != "ms") {
    throw Error(ExitCode::kBadInput, reader.Pointer("unit") + ": expected ms, got " + unit);
  }
  return {.phase = reader.String("phase"),
          .batch_size = reader.Int("batch_size"),
          .seq_len = reader.Int("seq_len"),
          .dtype = reader.String("dtype"),
          .clock = reader.String("clock"),
          .state = reader.Enum<CellState>("state"),
          .reason = reader.StringOrEmpty("reason"),
          .warmup_iterations = reader.Int("warmup_iterations"),
          .samples_ms = reader.List("samples",
                                    [](const Value& sample, const std::string& at) {
                                      const Value wrapped = Object{{"sample", sample}};
                                      return io::ObjectReader(wrapped, at).NumberOrNan("sample");
                                    }),
          .median_ms = reader.OptionalNumber("median"),
          .spread_ms = IntervalFrom(reader, "spread"),
          .tokens_per_second = reader.OptionalNumber("tokens_per_second"),
          .peak_memory_bytes = reader.OptionalInt("peak_memory_bytes"),
          .parity_check = reader.String("parity_check"),
          .parity = ParityFrom(reader, "parity"),
          .execution = reader.Has("execution") ? reader.StringOrEmpty("execution") : ""};
}

// Unknown facts are null, never 0.
Value ModelToValue(const ModelFacts& model) {
  const auto known = [](std::int64_t v) { return v == 0 ? Value() : Value(v); };
  // A model without a state (all zeros at some length) differs from one that was never measured.
  const bool has_state = model.state_at_num_tokens > 0;
  return Object{
      {"num_parameters", known(model.num_parameters)},
      {"state_bytes", has_state ? Value(Object{{"measured", model.state_bytes_measured},
                                               {"declared", model.state_bytes_declared},
                                               {"at_num_tokens", model.state_at_num_tokens}})
                                : Value()},
      {"path", TextOrNull(model.path)}};
}

ModelFacts ModelFromValue(const io::ObjectReader& reader) {
  ModelFacts model{.num_parameters = reader.OptionalInt("num_parameters").value_or(0),
                   .path = reader.StringOrEmpty("path")};
  if (!reader.IsNull("state_bytes")) {
    const io::ObjectReader state = reader.Nested("state_bytes");
    model.state_bytes_measured = state.Int("measured");
    model.state_bytes_declared = state.Int("declared");
    model.state_at_num_tokens = state.Int("at_num_tokens");
  }
  return model;
}

Value PhasesToValue(const std::optional<PhaseTimes>& phases) {
  if (!phases) return {};
  return Object{{"setup_s", phases->setup_s}, {"capture_s", phases->capture_s},
                {"train_s", phases->train_s}, {"validation_s", phases->validation_s},
                {"test_s", phases->test_s},   {"checkpoint_s", phases->checkpoint_s}};
}

std::optional<PhaseTimes> PhasesFromValue(const io::ObjectReader& time) {
  if (!time.Has("phases") || time.IsNull("phases")) return std::nullopt;
  const io::ObjectReader phases = time.Nested("phases");
  return PhaseTimes{.setup_s = phases.Number("setup_s"),
                    .capture_s = phases.Number("capture_s"),
                    .train_s = phases.Number("train_s"),
                    .validation_s = phases.Number("validation_s"),
                    .test_s = phases.Number("test_s"),
                    .checkpoint_s = phases.Number("checkpoint_s")};
}

Value WeightsToValue(const std::optional<KeptWeights>& weights) {
  if (!weights) return {};
  return Object{
      {"sha256", weights->sha256}, {"num_bytes", weights->num_bytes}, {"reused", weights->reused}};
}

std::optional<KeptWeights> WeightsFrom(const io::ObjectReader& time) {
  if (!time.Has("weights") || time.IsNull("weights")) return std::nullopt;
  const io::ObjectReader weights = time.Nested("weights");
  return KeptWeights{.sha256 = weights.String("sha256"),
                     .num_bytes = weights.Int("num_bytes"),
                     .reused = weights.Bool("reused")};
}

Array ItemsToValue(const std::vector<KeptItems>& all) {
  Array files;
  for (const KeptItems& items : all) {
    files.push_back(Object{{"segment", items.segment},
                           {"file", items.file},
                           {"sha256", items.sha256},
                           {"num_bytes", items.num_bytes},
                           {"num_items", items.num_items}});
  }
  return files;
}

KeptItems ItemsFromValue(const Value& value, const std::string& where) {
  const io::ObjectReader items(value, where);
  KeptItems kept{.segment = items.Int("segment"),
                 .file = items.String("file"),
                 .sha256 = items.String("sha256"),
                 .num_bytes = items.Int("num_bytes"),
                 .num_items = items.Int("num_items")};
  if (kept.file.find('/') == kept.file.npos && !kept.file.starts_with('.')) return kept;
  throw Error(ExitCode::kBadInput, items.Pointer("file") + ": is no file of the cell's folder");
}

Value TimeToValue(const CellResult& cell) {
  return Object{
      {"started", TextOrNull(cell.started)},
      {"wall_s", NumberOrNull(cell.wall_s)},
      {"tokens_seen", cell.tokens_seen},
      {"phases", PhasesToValue(cell.phases)},
      {"resumed_from_step", IntOrNull(cell.resumed_from_step)},
      {"weights", WeightsToValue(cell.weights)},
      {"items", ItemsToValue(cell.items)},
      {"eval_batch_sizes", Array(cell.eval_batch_sizes.begin(), cell.eval_batch_sizes.end())}};
}

Value ThresholdToValue(const CellResult& cell) {
  if (cell.threshold <= 0) return {};
  return Object{{"metric", "validation.accuracy"},
                {"threshold", cell.threshold},
                {"steps", IntOrNull(cell.steps_to_threshold)},
                {"censored", !cell.steps_to_threshold.has_value()}};
}

template <typename T>
Array ToArray(const std::vector<T>& items, Value (*write)(const T&)) {
  Array array;
  for (const T& item : items) array.push_back(write(item));
  return array;
}

// The document without its checksums and times.
Value ReproduciblePart(const Value& document) {
  Value copy = document;
  Object& members = copy.as_object();
  for (const char* key : {"integrity", "time", "throughput"}) members.erase(key);
  if (const auto plans = members.find("plans"); plans != members.end())
    DropExecution(plans->second);
  if (const auto curve = members.find("learning_curve");
      curve != members.end() && curve->second.is_array()) {
    for (Value& point : curve->second.as_array()) {
      if (point.is_object()) point.as_object().erase("elapsed_s");
    }
  }
  return copy;
}

// The document without its checksums.
Value WholeContent(const Value& document) {
  Value copy = document;
  Object& members = copy.as_object();
  members.erase("integrity");
  if (const auto time = members.find("time"); time != members.end() && time->second.is_object()) {
    time->second.as_object().erase("document_sha256");
  }
  return copy;
}

std::string Checksum(const Value& value) { return "sha256:" + Sha256Hex(io::DumpJson(value)); }

void CheckChecksum(const io::ObjectReader& reader, std::string_view key, const Value& content) {
  if (reader.String(key) == Checksum(content)) return;
  throw Error(ExitCode::kBadInput, reader.Pointer(key) +
                                       ": the content does not match its checksum; the file was "
                                       "damaged or edited, run the cell again");
}

}  // namespace

Value IntervalToValue(const std::optional<Interval>& interval) {
  if (!interval || !std::isfinite(interval->low) || !std::isfinite(interval->high)) return {};
  return Object{{"method", interval->method},
                {"level", interval->level},
                {"low", interval->low},
                {"high", interval->high}};
}

Value SeedToValue(std::uint64_t seed) {
  if (seed <= static_cast<std::uint64_t>(kLargestExactInteger)) return seed;
  return std::to_string(seed);
}

Value NumberOrNull(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? Value(*number) : Value();
}

Value TextOrNull(const std::string& text) { return text.empty() ? Value() : Value(text); }

Value PhaseToValue(CellPhase phase) {
  return phase == CellPhase::kNone ? Value() : Value(std::string(NameOf(phase)));
}

Value GuessesToValue(const std::vector<Guess>& guesses) {
  Array array;
  for (const Guess& guess : guesses) {
    array.push_back(Object{{"name", guess.name}, {"accuracy", guess.accuracy}});
  }
  return array;
}

std::optional<bool> Solved(const CellResult& cell) {
  if (cell.threshold <= 0) return std::nullopt;
  return cell.state == CellState::kCompleted && cell.steps_to_threshold.has_value();
}

Value CellToValue(const CellResult& cell) {
  const std::optional<bool> solved = Solved(cell);
  Value document = Object{{"schema_version", kSchemaVersion},
                          {"kind", "run"},
                          {"partial", cell.partial},
                          {"identity", Object{{"run_id", cell.run_id},
                                              {"group_id", cell.group_id},
                                              {"experiment_id", TextOrNull(cell.experiment_id)},
                                              {"code_id", TextOrNull(cell.code_id)},
                                              {"data_id", TextOrNull(cell.data_id)},
                                              {"training_id", TextOrNull(cell.training_id)},
                                              {"cell", cell.name},
                                              {"kind", cell.kind},
                                              {"phase", PhaseToValue(cell.phase)},
                                              {"seed", SeedToValue(cell.seed)},
                                              {"code", cell.code},
                                              {"data_hash", cell.data_hash}}},
                          {"state", Object{{"value", Name(cell.state)},
                                           {"reason", TextOrNull(cell.reason)},
                                           {"step", cell.step},
                                           {"stopped_early", cell.stopped_early}}},
                          {"config", cell.config},
                          {"environment", cell.environment},
                          {"model_facts", ModelToValue(cell.model)},
                          {"time", TimeToValue(cell)},
                          {"learning_curve", ToArray(cell.learning_curve, LearningToValue)},
                          {"steps_to_threshold", ThresholdToValue(cell)},
                          {"solved", solved ? Value(*solved) : Value()},
                          {"accuracy_by_length", ToArray(cell.accuracy, AccuracyToValue)},
                          {"throughput", ToArray(cell.throughput, ThroughputToValue)},
                          {"plans", PlansToValue(cell.plans)}};
  document.as_object()["integrity"] =
      Object{{"content_sha256", Checksum(ReproduciblePart(document))}};
  document.as_object()["time"].as_object()["document_sha256"] = Checksum(WholeContent(document));
  return document;
}

void CheckDocument(const Value& document, std::string_view kind, const std::string& where) {
  const io::ObjectReader reader(document, where);
  const std::string version = reader.String("schema_version");
  const std::string_view major = kSchemaVersion.substr(0, kSchemaVersion.find('.'));
  if (version.substr(0, version.find('.')) != major) {
    throw Error(ExitCode::kBadInput,
                reader.Pointer("schema_version") + ": this report has schema " + version +
                    ", this program reads " + std::string(major) +
                    ".x; use the mixerbench release that wrote it, or run the suite again");
  }
  if (const std::string found = reader.String("kind"); found != kind) {
    throw Error(ExitCode::kBadInput, reader.Pointer("kind") + ": expected a document of kind '" +
                                         std::string(kind) + "', got '" + found + "'");
  }
}

CellResult CellFromValue(const Value& value, const std::string& where) {
  CheckDocument(value, "run", where);
  const io::ObjectReader reader(value, where);
  CheckChecksum(reader.Nested("time"), "document_sha256", WholeContent(value));
  CheckChecksum(reader.Nested("integrity"), "content_sha256", ReproduciblePart(value));

  const io::ObjectReader identity = reader.Nested("identity");
  const io::ObjectReader state = reader.Nested("state");
  const io::ObjectReader time = reader.Nested("time");
  CellResult cell;
  cell.run_id = identity.String("run_id");
  cell.group_id = identity.String("group_id");
  cell.experiment_id = identity.NewerString("experiment_id");
  cell.code_id = identity.NewerString("code_id");
  cell.data_id = identity.NewerString("data_id");
  cell.training_id = identity.NewerString("training_id");
  if (identity.Has("code")) cell.code = identity.Member("code");
  cell.name = identity.String("cell");
  cell.kind = identity.String("kind");
  cell.seed = identity.Seed("seed");
  if (identity.Has("phase") && !identity.IsNull("phase")) {
    cell.phase = identity.Enum<CellPhase>("phase");
  }
  cell.data_hash = identity.Member("data_hash");
  cell.partial = reader.Bool("partial");
  cell.state = state.Enum<CellState>("value");
  cell.reason = state.StringOrEmpty("reason");
  cell.step = state.Int("step");
  cell.stopped_early = state.Bool("stopped_early");
  cell.config = reader.Member("config");
  cell.environment = reader.Member("environment");
  cell.model = ModelFromValue(reader.Nested("model_facts"));
  cell.learning_curve = reader.List("learning_curve", LearningFromValue);
  cell.accuracy = reader.List("accuracy_by_length", AccuracyFromValue);
  cell.throughput = reader.List("throughput", ThroughputFromValue);
  cell.plans = PlansFrom(reader, "plans");
  if (!reader.IsNull("steps_to_threshold")) {
    const io::ObjectReader threshold = reader.Nested("steps_to_threshold");
    cell.threshold = threshold.Number("threshold");
    cell.steps_to_threshold = threshold.OptionalInt("steps");
  }
  cell.started = time.StringOrEmpty("started");
  cell.wall_s = time.NumberOrNan("wall_s");
  cell.tokens_seen = time.Int("tokens_seen");
  cell.phases = PhasesFromValue(time);
  if (time.Has("resumed_from_step")) {
    cell.resumed_from_step = time.OptionalInt("resumed_from_step");
  }
  cell.weights = WeightsFrom(time);
  if (time.Has("items")) cell.items = time.List("items", ItemsFromValue);
  if (time.Has("eval_batch_sizes")) {
    cell.eval_batch_sizes =
        time.List("eval_batch_sizes", [](const Value& size, const std::string& place) {
          if (size.is_int()) return size.as_int();
          throw Error(ExitCode::kBadInput, place + ": expected an integer");
        });
  }
  return cell;
}

std::string DumpCell(const CellResult& cell) { return io::DumpJson(CellToValue(cell), 2); }

CellResult ParseCell(std::string_view text, const std::string& path) {
  try {
    return CellFromValue(io::ParseJson(text, io::kReportLimits));
  } catch (const Error& error) {
    throw Error(ExitCode::kBadInput, path + ": " + error.what());
  }
}

}  // namespace mixerbench::reports
