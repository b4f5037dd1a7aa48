// SPDX-License-Identifier: Apache-2.0
#include "gate/render/comparison_json.h"

#include <cmath>

#include "base/array_of.h"
#include "gate/render/comparison_schema.h"
#include "gate/render/row_text.h"
#include "io/json.h"
#include "reports/result/result_json.h"

namespace mixerbench::gate {
namespace {

using reports::NumberOrNull;
using reports::SeedToValue;
using reports::TextOrNull;

Value EffectToValue(const Effect& effect) {
  if (effect.kind == EffectKind::kNone) return nullptr;
  return Object{{"kind", NameOf(effect.kind)},
                {"value", NumberOrNull(effect.value)},
                {"low", NumberOrNull(effect.low)},
                {"high", NumberOrNull(effect.high)},
                {"level", effect.level}};
}

Value LooksToValue(const std::vector<Look>& looks) {
  Array values;
  for (const Look& look : looks) {
    values.push_back(Object{{"seeds", look.seeds},
                            {"level", look.level},
                            {"p_raw", NumberOrNull(look.p_raw)},
                            {"p_adjusted", NumberOrNull(look.p_adjusted)},
                            {"verdict", NameOf(look.verdict)}});
  }
  return values;
}

Value RowToValue(const Row& row) {
  return Object{{"gate", TextOrNull(std::string(NameOf(row.gate)))},
                {"metric", row.metric},
                {"cell", row.cell},
                {"where", TextOrNull(row.where)},
                {"experiment_id", TextOrNull(row.experiment_id)},
                {"seeds", ArrayOf(row.seeds, SeedToValue)},
                {"base", TextOrNull(row.base)},
                {"new", TextOrNull(row.candidate)},
                {"base_value", NumberOrNull(row.base_value)},
                {"new_value", NumberOrNull(row.candidate_value)},
                {"effect", EffectToValue(row.effect)},
                {"test", TextOrNull(row.test)},
                {"p_raw", NumberOrNull(row.p_raw)},
                {"p_adjusted", NumberOrNull(row.p_adjusted)},
                {"p_sign_flip", NumberOrNull(row.p_sign_flip)},
                {"cliffs_delta", NumberOrNull(row.cliffs_delta)},
                {"margin", NumberOrNull(row.margin)},
                {"would_have_seen", NumberOrNull(row.would_have_seen)},
                {"would_have_seen_text", TextOrNull(row.would_have_seen_text)},
                {"verdict", NameOf(row.verdict)},
                {"say", row.say},
                {"looks", LooksToValue(row.looks)}};
}

Value NumbersToValue(const std::vector<std::optional<double>>& numbers) {
  return ArrayOf(numbers, NumberOrNull);
}

Value DetailToValue(const Detail& detail) {
  return Object{{"cell", detail.cell},
                {"where", detail.where},
                {"base", NumbersToValue(detail.base)},
                {"new", NumbersToValue(detail.candidate)},
                {"difference", NumberOrNull(detail.difference)},
                {"low", NumberOrNull(detail.low)},
                {"high", NumberOrNull(detail.high)}};
}

Value SideToValue(const SideFacts& side) {
  return Object{{"name", side.name},
                {"code", TextOrNull(side.code)},
                {"commit", TextOrNull(side.commit)},
                {"device", TextOrNull(side.device)},
                {"started", TextOrNull(side.started)},
                {"num_cells", side.num_cells}};
}

}  // namespace

Value ComparisonToValue(const Comparison& comparison, ExitCode code) {
  Value seeds_wanted;
  if (comparison.seeds_wanted) seeds_wanted = *comparison.seeds_wanted;
  Object counts;
  for (const auto& [verdict, count] : CountVerdicts(comparison)) {
    counts[std::string(NameOf(verdict))] = count;
  }
  return Object{{"schema_version", kComparisonVersion},
                {"kind", "comparison"},
                {"outcome", WordOf(code)},
                {"exit_code", static_cast<int>(code)},
                {"summary", OutcomeText(comparison, code)},
                {"settings", SettingsFields().Write(comparison.settings)},
                {"base", SideToValue(comparison.base)},
                {"new", SideToValue(comparison.candidate)},
                {"counts", counts},
                {"rows", ArrayOf(comparison.rows, RowToValue)},
                {"details", ArrayOf(comparison.details, DetailToValue)},
                {"notes", ArrayOf(comparison.notes, NoteText)},
                {"num_failed", comparison.num_failed},
                {"num_headlines", comparison.num_headlines},
                {"data_hashes", Object{{"equal", comparison.hashes_equal},
                                       {"compared", comparison.hashes_compared}}},
                {"seeds_wanted", seeds_wanted}};
}

std::string RenderJson(const Comparison& comparison, ExitCode code) {
  return io::DumpJson(ComparisonToValue(comparison, code), 1);
}

std::string_view ComparisonSchema() { return kComparisonSchemaText; }

}  // namespace mixerbench::gate
