// Published times, rates of work, memory and state beside ours.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <set>
#include <string_view>

#include "io/json.h"
#include "reports/result/device.h"
#include "reports/view/beside.h"
#include "reports/view/cell_parts.h"
#include "reports/view/correspondence.h"
#include "reports/view/datums.h"
#include "reports/view/mixer_list.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

// What a paper's metric is among ours.
struct Measure {
  std::string_view task;  // as papers' tables call it here
  std::string_view unit;
  std::string_view phase;   // of a timing; "" for the state
  std::string_view length;  // the param that gives it
  std::optional<double> (*ours)(const ThroughputRow&);
  double factor;              // from its unit to ours
  std::string_view is_other;  // why the two are not quite the same quantity; may be empty
};

std::optional<double> Rate(const ThroughputRow& row) { return row.tokens_per_second; }
std::optional<double> Time(const ThroughputRow& row) { return row.median_ms; }
std::optional<double> Peak(const ThroughputRow& row) {
  return row.peak_memory_bytes ? std::optional(static_cast<double>(*row.peak_memory_bytes))
                               : std::nullopt;
}

constexpr std::array kMeasures = std::to_array<Measure>({
    {"training throughput", "K tokens/s", "train_step", "seqlen", Rate, 1e3, ""},
    {"selective copying throughput", "tokens/s", "train_step", "length", Rate, 1, ""},
    {"attention runtime forward+backward", "ms", "fwd_bwd", "seqlen", Time, 1,
     "ours is of the whole model"},
    {"prefill time", "ms", "prefill", "prefill_length", Time, 1, ""},
    {"memory after prefill", "GB", "prefill", "prefill_length", Peak, 1e9,
     "ours is the peak of the pass"},
});

std::optional<double> NumberAt(const Object& params, std::string_view key) {
  const auto found = params.find(key);
  return found == params.end() ? std::nullopt : PublishedNumber(io::ValueText(found->second));
}

// A published timing with the length it is for.
struct Published {
  const PublishedResult* result;
  const Measure* measure;
  std::int64_t length;
};

const std::vector<Published>& PublishedTimings() {
  static const std::vector<Published> kTimings = [] {
    std::vector<Published> timings;
    for (const PublishedResult& result : PublishedResults()) {
      for (const Measure& measure : kMeasures) {
        const auto length = NumberAt(result.params, measure.length);
        if (result.task != measure.task || result.unit != measure.unit || !length) continue;
        if (result.value) timings.push_back({&result, &measure, std::llround(*length)});
      }
    }
    return timings;
  }();
  return kTimings;
}

// What is known of ours beside what the paper states.
std::string CostDifferences(const Published& published, const CellResult& cell,
                            const ThroughputRow& row) {
  Contrasts contrasts;
  Object others;
  bool has_size = false;
  for (const auto& [key, value] : published.result->params) {
    if (key == published.measure->length) continue;
    if (const auto batch = key == "batch" ? PublishedNumber(io::ValueText(value)) : std::nullopt) {
      if (*batch != static_cast<double>(row.batch_size)) {
        contrasts.Differ("batch " + std::to_string(row.batch_size),
                         fmt::format("batch {:.0f}", *batch));
      }
    } else if (key == "gpu" && value.is_string()) {
      contrasts.Differ(DeviceOf(cell), value.as_string());
    } else {
      has_size = has_size || IsModelSize(key);
      others[key] = value;
    }
  }
  PublishedResult rest = *published.result;
  rest.params = std::move(others);
  Contrasts stated = ContrastsOf(rest, cell.config, {}, cell.model.num_parameters);
  contrasts.ours.insert(contrasts.ours.end(), stated.ours.begin(), stated.ours.end());
  contrasts.theirs.insert(contrasts.theirs.end(), stated.theirs.begin(), stated.theirs.end());
  contrasts.stated = std::move(stated.stated);
  const bool has_machine = published.result->params.contains("gpu");
  if (!has_machine || !has_size) {
    contrasts.clauses.push_back(std::string("the paper's table does not say ") +
                                (has_size      ? "on what machine"
                                 : has_machine ? "of how large a model"
                                               : "on what machine and of how large a model"));
  }
  if (!published.measure->is_other.empty()) {
    contrasts.clauses.emplace_back(published.measure->is_other);
  }
  return SentenceOf(contrasts);
}

std::string Amount(const Measure& measure, double value) {
  if (measure.ours == Peak) return Bytes(value);
  return measure.ours == Time ? Significant(value) + " ms" : Si(value) + " tokens/s";
}

Row CostRow(const Published& published, int mixer, const std::string& label, const CellResult& cell,
            const ThroughputRow& row, double ours) {
  const PublishedResult& result = *published.result;
  const double theirs = *result.value * published.measure->factor;
  Datum source = TextDatum(result.source + ", " + result.table);
  source.note = result.note;
  return {.mixer = mixer,
          .cells = {TextDatum(label, result.mixer == label ? "" : result.mixer),
                    TextDatum(result.task,
                              fmt::format("{} tokens", Count(static_cast<double>(row.seq_len)))),
                    NumberDatum(ours, Amount(*published.measure, ours)),
                    NumberDatum(theirs, Amount(*published.measure, theirs)),
                    NumberDatum(ours / theirs, "×" + Significant(ours / theirs)),
                    TextDatum(CostDifferences(published, cell, row)), std::move(source)}};
}

void AddTimings(const SweepReport& report, const MixerList& mixers, Table& table) {
  for (const GroupSummary& group : report.groups) {
    const CellResult& cell = report.cells[group.first_cell];
    const int mixer = mixers.IndexOf(MixerKey(group.name));
    for (const ThroughputRow& row : cell.throughput) {
      for (const Published& published : PublishedTimings()) {
        const Measure& measure = *published.measure;
        if (row.phase != measure.phase || row.seq_len != published.length) continue;
        const auto ours = measure.ours(row);
        if (!ours || !SameMixer(*published.result, cell.config)) continue;
        table.Add(CostRow(published, mixer, LabelOf(mixers, mixer), cell, row, *ours));
      }
    }
  }
}

// "Mamba2-370M" in its parts; the size is 0 where the name has none.
std::pair<std::string, double> NameAndSize(const std::string& name) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string::npos) return {name, 0};
  const auto size = NumParameters(std::string_view(name).substr(dash + 1));
  return size ? std::pair(name.substr(0, dash), *size) : std::pair(name, 0.0);
}

// A state belongs to a size of the model: without it equal nothing corresponds.
void AddStates(const SweepReport& report, const MixerList& mixers, Table& table) {
  std::set<std::pair<const PublishedResult*, std::int64_t>> known;  // with our bytes
  for (const PublishedResult& result : PublishedResults()) {
    if (result.metric != "state_size" || !result.value) continue;
    PublishedResult named = result;
    const auto [name, size] = NameAndSize(result.mixer);
    named.mixer = name;
    for (const GroupSummary& group : report.groups) {
      const CellResult& cell = report.cells[group.first_cell];
      const ModelFacts& model = cell.model;
      if (size <= 0 || model.state_at_num_tokens == 0 ||
          !SameModelSize(static_cast<double>(model.num_parameters), size) ||
          !SameMixer(named, cell.config) ||
          !known.emplace(&result, model.state_bytes_measured).second) {
        continue;
      }
      const int mixer = mixers.IndexOf(MixerKey(group.name));
      Datum source = TextDatum(result.source + ", " + result.table);
      source.note = result.note;
      const auto bytes = static_cast<double>(model.state_bytes_measured);
      table.Add(
          {.mixer = mixer,
           .cells = {TextDatum(LabelOf(mixers, mixer), result.mixer),
                     TextDatum(result.task, "a sequence"), NumberDatum(bytes, Bytes(bytes)),
                     TextDatum(Count(*result.value) + " elements"), TextDatum(""),
                     TextDatum("Ours counts bytes, the paper elements."), std::move(source)}});
    }
  }
}

}  // namespace

std::optional<Table> PublishedCostTable(const SweepReport& report, const MixerList& mixers) {
  Table table{.key = "",
              .title = "Beside published speeds and sizes.",
              .note =
                  "Published values are quoted, never mixed into ours: other machines, and mostly "
                  "other models. A ratio says how far apart they are, not who is faster."};
  table.columns = {{.label = "Mixer", .kind = Column::Kind::kText},
                   {.label = "Quantity", .kind = Column::Kind::kText},
                   {.label = "Ours"},
                   {.label = "Published"},
                   {.label = "Ours / published"},
                   {.label = "Settings that differ", .kind = Column::Kind::kText, .wraps = true},
                   {.label = "Source", .kind = Column::Kind::kText, .wraps = true}};
  AddTimings(report, mixers, table);
  AddStates(report, mixers, table);
  if (table.rows.empty()) return std::nullopt;
  FoldIfLong(table, "published speeds and sizes");
  RemarkOnSources(table);
  return table;
}

}  // namespace mixerbench::reports
