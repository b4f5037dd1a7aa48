// What a report says of all of its runs at once: task, training and environment.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <set>

#include "io/json.h"
#include "reports/view/cell_parts.h"
#include "reports/view/config_leaves.h"
#include "reports/view/numbers.h"
#include "reports/view/sentences.h"
#include "reports/view/study.h"

namespace mixerbench::reports {
namespace {

// ConfigValues of a number of things: "8,192".
std::vector<std::string> Counts(const Study& study, const std::string& path) {
  std::vector<std::string> counts = ConfigValues(study, path);
  for (std::string& text : counts) {
    if (const auto number = NumberOf(text)) text = Count(*number);
  }
  return counts;
}

std::string Or(const std::vector<std::string>& values) { return FirstOf(values, " or ", 6); }

void AddFact(const std::string& term, const std::string& text, std::vector<Fact>& out) {
  if (!text.empty()) out.push_back({term, text});
}

std::string WithUnit(const std::string& value, const std::string& unit) {
  return value.empty() ? "" : value + unit;
}

// The options of a split by name, as far as its segments agree in them: what differs is a size, or
// goes with one, and stands with the results. So do `said` ones.
std::map<std::string, std::set<std::string>> OptionsOf(const Study& study, const char* split,
                                                       const std::set<std::string>& said) {
  std::map<std::string, std::set<std::string>> options;
  for (const auto& [place, cell] : study.cells) {
    for (const GroupSummary* group : cell.all) {
      std::map<std::string, std::set<std::string>> own;
      for (const Object& segment :
           SegmentsOf(study.report->cells[group->first_cell].config, split)) {
        for (const auto& [name, value] : segment) {
          if (value.is_object() || said.contains(name)) continue;
          own[name].insert(io::ValueText(value));
        }
      }
      for (const auto& [name, values] : own) {
        if (values.size() == 1) options[name].insert(*values.begin());
      }
    }
  }
  return options;
}

std::string Or(const std::set<std::string>& values) {
  return Or(std::vector<std::string>(values.begin(), values.end()));
}

// What else the task was asked for: "group A4xZ5, key_length longest (uniform in training)".
std::string OptionsText(const Study& study) {
  std::set<std::string> said = {"input_seq_len", "num_kv_pairs", "vocab_size", "noise",
                                "num_examples"};
  for (const Setting& setting : study.settings) {
    for (const auto& [key, value] : setting.parts) said.insert(key);
  }
  const auto trained = OptionsOf(study, "train", said);
  std::string text;
  for (const auto& [name, values] : OptionsOf(study, "test", said)) {
    text += (text.empty() ? "" : ", ") + name + " " + Or(values);
    const auto in_training = trained.find(name);
    if (in_training != trained.end() && in_training->second != values) {
      text += " (" + Or(in_training->second) + " in training)";
    }
  }
  return text;
}

// "128 tokens, 8 pairs" where all tests are of one size, else empty. Rows do not name every size.
std::string TestSize(const Study& study) {
  std::set<std::string> sizes;
  for (const auto& [place, cell] : study.cells) {
    for (const GroupSummary* group : cell.all) {
      const auto tests = SegmentsOf(study.report->cells[group->first_cell].config, "test");
      if (tests.size() != 1) return "";
      Object size;
      for (const char* name : {"input_seq_len", "num_kv_pairs"}) {
        const auto found = tests.front().find(name);
        if (found != tests.front().end()) size.insert(*found);
      }
      for (const AccuracyOverSeeds& row : group->accuracy) {
        if (row.slice.empty()) size.insert(row.axes.begin(), row.axes.end());
      }
      sizes.insert(SegmentText(size));
    }
  }
  return sizes.size() == 1 ? *sizes.begin() : "";
}

// "3,000"; "16 to 256" where the segments of a test differ.
std::string TestCount(const Study& study) {
  std::set<std::int64_t> counts;
  bool differ_within = false;
  for (const auto& [place, cell] : study.cells) {
    for (const GroupSummary* group : cell.all) {
      std::set<std::int64_t> own;
      for (const Object& segment :
           SegmentsOf(study.report->cells[group->first_cell].config, "test")) {
        const auto found = segment.find("num_examples");
        if (found != segment.end() && found->second.is_int()) own.insert(found->second.as_int());
      }
      differ_within = differ_within || own.size() > 1;
      counts.merge(own);
    }
  }
  if (!differ_within) return Or(Counts(study, "task.test.num_examples"));
  return Count(static_cast<double>(*counts.begin())) + " to " +
         Count(static_cast<double>(*counts.rbegin()));
}

// "95,000 sequences of 2 to 20 tokens, 4 pairs": those of all segments.
std::string TrainingText(const GroupSummary& group, const SweepReport& report) {
  const auto segments = SegmentsOf(report.cells[group.first_cell].config, "train");
  if (segments.empty()) return "";
  std::string text;
  for (const char* size : {"input_seq_len", "num_kv_pairs"}) {
    const std::vector<double> numbers = NumbersOf(segments, size);
    if (numbers.empty()) continue;
    const auto [low, high] = std::ranges::minmax(numbers);
    text += (text.empty() ? "" : ", ") + (low == high ? "" : Count(low) + " to ") +
            PartText(size, fmt::format("{}", high));
  }
  const std::vector<double> counts = NumbersOf(segments, "num_examples");
  const double count = std::accumulate(counts.begin(), counts.end(), 0.0);
  const std::string sequences = count == 0 ? "ever new" : Count(count);  // online data
  return sequences + " sequences" + (text.empty() ? "" : " of " + text);
}

std::string TrainingText(const Study& study) {
  std::set<std::string> texts;
  for (const auto& [place, cell] : study.cells) {
    for (const GroupSummary* group : cell.all) texts.insert(TrainingText(*group, *study.report));
  }
  texts.erase("");
  return Or(texts);
}

std::string TestText(const Study& study) {
  const std::string count = WithUnit(TestCount(study), " sequences");
  const std::string size = TestSize(study);
  if (size.empty()) return WithUnit(count, " a segment");
  return count.empty() ? size : count + " of " + size;
}

// Whether every mixer has one rate, and not all the same.
bool HasOwnRates(const Study& study) {
  std::map<int, std::set<std::string>> rates;  // by mixer
  std::set<std::set<std::string>> distinct;
  for (const auto& [place, cell] : study.cells) {
    for (const GroupSummary* group : cell.all) {
      rates[place.first].insert(
          ConfigText(study.report->cells[group->first_cell].config, "train.lr"));
    }
  }
  for (const auto& [mixer, own] : rates) {
    if (own.size() > 1) return false;
    distinct.insert(own);
  }
  return distinct.size() > 1;
}

// "1e-3"; "best of 1e-3, 1e-2 by validation accuracy"; "each mixer its own: 1e-3, 1e-2".
std::string RatesText(const Study& study) {
  std::vector<std::string> rates;
  for (const std::string& rate : ConfigValues(study, "train.lr")) {
    rates.push_back(RateText(std::stod(rate)));
  }
  const std::string list = FirstOf(rates, ", ", 8);
  if (ChoosesRate(study)) return "best of " + list + " by validation accuracy";
  return (HasOwnRates(study) ? "each mixer its own: " : "") + list;
}

// "3 (0, 1, 2)".
std::string SeedsText(const std::set<std::uint64_t>& seeds) {
  std::vector<std::string> texts;
  for (const std::uint64_t seed : seeds) texts.push_back(std::to_string(seed));
  return fmt::format("{} ({})", seeds.size(), FirstOf(texts, ", ", 10));
}

// Of the seeds that ran or, of fresh ones, are planned; empty before any did.
std::string SeedsFact(const Study& study) {
  const auto sweep = SeedsOf(study, false);
  if (study.report->reseeds.empty()) return sweep.empty() ? "" : SeedsText(sweep);
  const auto& fresh = study.report->reseeds.front().seeds;
  return (sweep.empty() ? "" : "chosen by " + SeedsText(sweep) + "; ") +
         (SeedsOf(study, true).empty() ? "to be " : "") + "reported by fresh ones, " +
         SeedsText({fresh.begin(), fresh.end()}) + ", which chose nothing";
}

}  // namespace

std::vector<Fact> SetupOf(const Study& study) {
  std::vector<Fact> facts;
  std::string task = Or(ConfigValues(study, "task.name"));
  if (const std::string vocab = Or(Counts(study, "task.test.vocab_size")); !vocab.empty()) {
    task += ", vocabulary " + vocab;
  }
  if (const std::string noise = Or(ConfigValues(study, "task.test.noise")); !noise.empty()) {
    task += ", filler " + noise;
  }
  AddFact("Task", task, facts);
  AddFact("Task options", OptionsText(study), facts);
  AddFact("Training data", TrainingText(study), facts);
  AddFact("Test", TestText(study), facts);
  const std::string layers = Or(ConfigValues(study, "model.n_layers"));
  std::string model = WithUnit(layers, layers == "1" ? " layer" : " layers");
  if (const std::string d = Or(ConfigValues(study, "model.d_model")); !d.empty())
    model += ", d " + d;
  if (const std::string b = Or(ConfigValues(study, "model.backbone")); !b.empty())
    model += ", " + b;
  AddFact("Model", model, facts);
  AddFact("Channel mixer", Or(ConfigValues(study, "model.state_mixer")), facts);
  std::string recipe = Or(ConfigValues(study, "train.recipe"));
  if (const std::string t = Or(ConfigValues(study, "train.dtype")); !t.empty()) recipe += ", " + t;
  if (const std::string b = Or(ConfigValues(study, "train.batch_size")); !b.empty()) {
    recipe += ", batch " + b;
  }
  AddFact("Recipe", recipe, facts);
  const std::string epochs = Or(Counts(study, "train.num_epochs"));
  const std::string steps = Or(Counts(study, "train.max_steps"));
  std::string epoch = " epochs";
  if (const std::string n = Or(Counts(study, "train.steps_per_epoch")); !n.empty()) {
    epoch += " of " + n + " steps";
  }
  AddFact("Budget", steps.empty() ? WithUnit(epochs, epoch) : WithUnit(steps, " steps"), facts);
  AddFact("Learning rate", RatesText(study), facts);
  if (const double stop = EarlyStop(study); stop > 0) {
    AddFact("Stops early at", GuessPercent(stop) + " % validation accuracy", facts);
  }
  AddFact("Seeds", SeedsFact(study), facts);
  return facts;
}

std::vector<Fact> EnvironmentOf(const SweepReport& report) {
  std::vector<Fact> facts;
  static const std::vector<std::pair<const char*, const char*>> kPaths = {
      {"GPU", "gpu.name"},
      {"GPU memory, bytes", "gpu.memory_bytes"},
      {"Compute capability", "gpu.compute_capability"},
      {"CPU", "cpu.model"},
      {"CPU threads", "cpu.threads"},
      {"libtorch", "libtorch"},
      {"CUDA runtime", "cuda.runtime"},
      {"CUDA driver", "cuda.driver"},
      {"mixerbench", "tool.version"},
      {"Code", "tool.code"},
      {"Commit", "tool.git_commit"},
      {"Uncommitted changes", "tool.git_dirty"},
      {"Compiler", "tool.compiler"},
      {"Build", "tool.build"},
      {"Deterministic algorithms", "determinism.deterministic_algorithms"},
      {"TF32", "determinism.tf32"},
      {"cuDNN benchmark", "determinism.cudnn_benchmark"}};
  for (const auto& [term, path] : kPaths) {
    std::vector<std::string> values = Distinct(report, path);
    for (std::string& value : values) {
      if (value.size() == 64 || value.size() == 40) value = value.substr(0, 12);  // a hash
    }
    AddFact(term, FirstOf(values, ", ", 6), facts);
  }
  return facts;
}

}  // namespace mixerbench::reports
