// The keys of a result and the members they hold, in the order of docs/REPORT_SCHEMA.md, each once.
// Not here: `model_facts.state_bytes`, `steps_to_threshold`, `solved` and the checksums, which
// result_json.cc derives, and the grouping of `plans`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>

#include "reports/result/bound_fields.h"
#include "reports/result/result.h"
#include "reports/result/result_json.h"

namespace mixerbench::reports {

template <>
struct Bound<Interval> {
  using T = Interval;
  static constexpr std::array kFields = {Field<&T::method>("method"), Field<&T::level>("level"),
                                         Field<&T::low>("low"), Field<&T::high>("high")};
};

template <>
struct Bound<Guess> {
  static constexpr std::array kFields = {Field<&Guess::name>("name"),
                                         Field<&Guess::accuracy>("accuracy")};
};

template <>
struct Bound<Parity> {
  using T = Parity;
  static constexpr std::array kFields = {Field<&T::passes>("passes"),
                                         Field<&T::num_sequences>("num_sequences"),
                                         Field<&T::num_tokens>("num_tokens"),
                                         Field<&T::quantity>("quantity"),
                                         Field<&T::error, Null::kAllowed>("error"),
                                         Field<&T::tolerance, Null::kAllowed>("tolerance")};
};

template <>
struct Bound<PhaseTimes> {
  using T = PhaseTimes;
  static constexpr std::array kFields = {
      Field<&T::setup_s>("setup_s"), Field<&T::capture_s>("capture_s"),
      Field<&T::train_s>("train_s"), Field<&T::validation_s>("validation_s"),
      Field<&T::test_s>("test_s"),   Field<&T::checkpoint_s>("checkpoint_s")};
};

template <>
struct Bound<KeptWeights> {
  using T = KeptWeights;
  static constexpr std::array kFields = {
      Field<&T::sha256>("sha256"), Field<&T::num_bytes>("num_bytes"), Field<&T::reused>("reused")};
};

namespace internal {

// null, too, where an end is not finite.
template <auto kMember>
constexpr auto IntervalField(std::string_view key) {
  auto field = Field<kMember>(key);
  field.write = [](const auto& from, Object& object, std::string_view name) {
    object[std::string(name)] = IntervalToValue(from.*kMember);
  };
  return field;
}

// A file of the cell's folder, and of no other.
constexpr BoundField<KeptItems> ItemFileField() {
  auto field = Field<&KeptItems::file>("file");
  field.read = [](const io::ObjectReader& reader, std::string_view key, KeptItems& into) {
    into.file = reader.String(key);
    if (into.file.find('/') == into.file.npos && !into.file.starts_with('.')) return;
    throw Error(ExitCode::kBadInput, reader.Pointer(key) + ": is no file of the cell's folder");
  };
  return field;
}

// Absent where the model has none.
constexpr BoundField<LearningPoint> AuxiliaryLossesField() {
  return {.key = "auxiliary_losses",
          .since = 4,
          .write =
              [](const LearningPoint& from, Object& object, std::string_view key) {
                if (from.auxiliary_losses.empty()) return;
                Object losses;
                for (const auto& [name, loss] : from.auxiliary_losses) {
                  losses[name] = NumberOrNull(loss);
                }
                object[std::string(key)] = std::move(losses);
              },
          .read =
              [](const io::ObjectReader& reader, std::string_view key, LearningPoint& into) {
                const io::ObjectReader losses = reader.Nested(key);
                for (const auto& [name, loss] : reader.Member(key).as_object()) {
                  into.auxiliary_losses[name] = losses.NumberOrNan(name);
                }
              }};
}

// Of `samples`, `median` and `spread`.
constexpr BoundField<ThroughputRow> UnitField() {
  return {.key = "unit",
          .since = 0,
          .write = [](const ThroughputRow&, Object& object,
                      std::string_view key) { object[std::string(key)] = "ms"; },
          .read =
              [](const io::ObjectReader& reader, std::string_view key, ThroughputRow&) {
                const std::string unit = reader.String(key);
                if (unit == "ms") return;
                throw Error(ExitCode::kBadInput,
                            reader.Pointer(key) + ": expected ms, got " + unit);
              }};
}

// null, too, where a cell without result does not know it. The state is read before.
template <auto kMember, Null kNull = Null::kNever>
constexpr BoundField<CellResult> KnownField(std::string_view key) {
  using T = typename MemberPointer<decltype(kMember)>::Type;
  return {.key = key,
          .since = 0,
          .write =
              [](const CellResult& from, Object& object, std::string_view name) {
                object[std::string(name)] =
                    KnownOf(from, kMember) ? Write<kNull>(from.*kMember) : Value();
              },
          .read =
              [](const io::ObjectReader& reader, std::string_view name, CellResult& into) {
                const bool is_unknown = IsMissing(into) && reader.IsNull(name);
                into.*kMember = is_unknown ? T{} : Read<kNull, T>(reader, name);
              }};
}

constexpr BoundField<CellResult> SeedField() {
  return {.key = "seed",
          .since = 0,
          .write = [](const CellResult& from, Object& object,
                      std::string_view key) { object[std::string(key)] = SeedToValue(from.seed); },
          .read = [](const io::ObjectReader& reader, std::string_view key,
                     CellResult& into) { into.seed = reader.Seed(key); }};
}

}  // namespace internal

template <>
struct Bound<KeptItems> {
  using T = KeptItems;
  static constexpr std::array kFields = {
      Field<&T::segment>("segment"), internal::ItemFileField(), Field<&T::sha256>("sha256"),
      Field<&T::num_bytes>("num_bytes"), Field<&T::num_items>("num_items")};
};

template <>
struct Bound<LearningPoint> {
  using T = LearningPoint;
  static constexpr std::array kFields = {Field<&T::step>("step"),
                                         Field<&T::train_loss, Null::kAllowed>("train_loss"),
                                         Field<&T::validation_accuracy>("validation_accuracy"),
                                         Field<&T::lr, Null::kAllowed>("lr"),
                                         Field<&T::elapsed_s, Null::kAllowed>("elapsed_s"),
                                         internal::AuxiliaryLossesField()};
};

template <>
struct Bound<AccuracyRow> {
  using T = AccuracyRow;
  static constexpr std::array kFields = {
      Field<&T::axes>("axes"),
      Field<&T::slice, Null::kAllowed>("slice"),
      Field<&T::bucket, Null::kAllowed>("bucket"),
      Field<&T::state>("state"),
      Field<&T::reason, Null::kAllowed>("reason"),
      Field<&T::num_sequences>("num_sequences"),
      Field<&T::num_scored>("num_scored"),
      Field<&T::num_correct>("num_correct"),
      Field<&T::accuracy>("accuracy"),
      Field<&T::accuracy_per_example>("accuracy_per_example"),
      Field<&T::accuracy_macro>("accuracy_macro"),
      Field<&T::accuracy_macro_batched>("accuracy_macro_batched", 2),
      Field<&T::sequence_accuracy>("sequence_accuracy"),
      Field<&T::nll>("nll"),
      internal::IntervalField<&T::ci_items>("ci_items"),
      internal::IntervalField<&T::ci_sequences>("ci_sequences"),
      Field<&T::chance>("chance"),
      Field<&T::guesses>("guesses", 3),
      Field<&T::ceiling>("ceiling", 2),
      Field<&T::extrapolated>("extrapolated")};
};

template <>
struct Bound<ThroughputRow> {
  using T = ThroughputRow;
  static constexpr std::array kFields = {
      Field<&T::phase>("phase"),
      Field<&T::batch_size>("batch_size"),
      Field<&T::seq_len>("seq_len"),
      Field<&T::dtype>("dtype"),
      internal::UnitField(),
      Field<&T::clock>("clock"),
      Field<&T::state>("state"),
      Field<&T::reason, Null::kAllowed>("reason"),
      Field<&T::warmup_iterations>("warmup_iterations"),
      Field<&T::samples_ms, Null::kAllowed>("samples"),
      Field<&T::median_ms>("median"),
      internal::IntervalField<&T::spread_ms>("spread"),
      Field<&T::tokens_per_second>("tokens_per_second"),
      Field<&T::peak_memory_bytes>("peak_memory_bytes"),
      Field<&T::parity_check>("parity_check"),
      Field<&T::parity>("parity", 3),
      Field<&T::execution, Null::kAllowed>("execution", 1),
      Field<&T::throttle>("throttle", 10),
      Field<&T::throttled_samples_dropped>("throttled_samples_dropped", 10),
      Field<&T::energy_j>("energy_j", 10)};
};

template <>
struct Bound<TapRow> {
  using T = TapRow;
  static constexpr std::array kFields = {Field<&T::axes>("axes"),
                                         Field<&T::tap>("tap"),
                                         Field<&T::path, Null::kAllowed>("path"),
                                         Field<&T::state>("state"),
                                         Field<&T::reason, Null::kAllowed>("reason"),
                                         Field<&T::num_sequences>("num_sequences"),
                                         Field<&T::num_values>("num_values"),
                                         Field<&T::num_not_finite>("num_not_finite"),
                                         Field<&T::mean>("mean"),
                                         Field<&T::std>("std"),
                                         Field<&T::min>("min"),
                                         Field<&T::max>("max")};
};

// Of `plans[].runs[]`; the functions stand once for all runs that share them.
template <>
struct Bound<PhasePlan> {
  using T = PhasePlan;
  static constexpr std::array kFields = {
      Field<&T::phase>("phase"), Field<&T::batch_size>("batch_size"), Field<&T::seq_len>("seq_len"),
      Field<&T::execution>("execution"), Field<&T::eager_reason, Null::kAllowed>("eager_reason")};
};

template <>
struct Bound<FunctionPlan> {
  using T = FunctionPlan;
  static constexpr std::array kFields = {Field<&T::function>("function"),
                                         Field<&T::is_core>("core"),
                                         Field<&T::scopes>("scopes"),
                                         Field<&T::forward>("forward"),
                                         Field<&T::backward, Null::kAllowed>("backward"),
                                         Field<&T::reason, Null::kAllowed>("reason")};
};

inline constexpr std::array kIdentityFields = {
    Field<&CellResult::run_id>("run_id"),
    Field<&CellResult::group_id>("group_id"),
    Field<&CellResult::experiment_id, Null::kAllowed>("experiment_id", 3),
    Field<&CellResult::code_id, Null::kAllowed>("code_id", 3),
    Field<&CellResult::data_id, Null::kAllowed>("data_id", 3),
    Field<&CellResult::training_id, Null::kAllowed>("training_id", 5),
    Field<&CellResult::code>("code", 3),
    Field<&CellResult::name>("cell"),
    Field<&CellResult::kind>("kind"),
    Field<&CellResult::phase, Null::kAllowed>("phase", 7),
    internal::SeedField(),
    Field<&CellResult::data_hash>("data_hash")};

inline constexpr std::array kStateFields = {Field<&CellResult::state>("value"),
                                            Field<&CellResult::reason, Null::kAllowed>("reason"),
                                            internal::KnownField<&CellResult::step>("step"),
                                            Field<&CellResult::planned_steps>("planned_steps", 11),
                                            Field<&CellResult::stopped_early>("stopped_early"),
                                            Field<&CellResult::halved_from>("halved_from", 9)};

inline constexpr std::array kModelFields = {
    Field<&ModelFacts::num_parameters, Null::kAllowed>("num_parameters"),
    Field<&ModelFacts::path, Null::kAllowed>("path")};

inline constexpr std::array kStateBytesFields = {
    Field<&ModelFacts::state_bytes_measured>("measured"),
    Field<&ModelFacts::state_bytes_declared>("declared"),
    Field<&ModelFacts::state_at_num_tokens>("at_num_tokens")};

inline constexpr std::array kTimeFields = {
    Field<&CellResult::started, Null::kAllowed>("started"),
    internal::KnownField<&CellResult::wall_s, Null::kAllowed>("wall_s"),
    Field<&CellResult::energy_j>("energy_j", 10),
    Field<&CellResult::machine>("machine", 10),
    internal::KnownField<&CellResult::tokens_seen>("tokens_seen"),
    Field<&CellResult::phases>("phases", 1),
    Field<&CellResult::resumed_from_step>("resumed_from_step", 1),
    Field<&CellResult::weights>("weights", 5),
    Field<&CellResult::items>("items", 6),
    Field<&CellResult::eval_batch_sizes>("eval_batch_sizes", 3)};

// The members of the document itself that are neither derived nor objects of the lists above.
inline constexpr std::array kDocumentFields = {Field<&CellResult::partial>("partial"),
                                               Field<&CellResult::config>("config"),
                                               Field<&CellResult::environment>("environment"),
                                               Field<&CellResult::learning_curve>("learning_curve"),
                                               Field<&CellResult::accuracy>("accuracy_by_length"),
                                               Field<&CellResult::throughput>("throughput"),
                                               Field<&CellResult::taps>("taps", 8)};

}  // namespace mixerbench::reports
