// SPDX-License-Identifier: Apache-2.0
#include "reports/view/timing_settings.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <vector>

#include "io/text.h"
#include "reports/result/device.h"
#include "reports/summary/axis_keys.h"
#include "reports/view/cell_parts.h"
#include "reports/view/telling_texts.h"

namespace mixerbench::reports {
namespace {

// The first ones go with the mixer, the next a timing says itself, the others change no time of a
// step: how many there are, their rate, when training stops, which samples it sees.
constexpr auto kFreeKeys = std::to_array<const char*>({"sequence_mixer",
                                                       "positions",
                                                       "throughput",
                                                       "dtype",
                                                       "batch_size",
                                                       "input_seq_len",
                                                       "num_kv_pairs",
                                                       "lr",
                                                       "min_lr",
                                                       "ssm_lr",
                                                       "beta1",
                                                       "beta2",
                                                       "eps",
                                                       "weight_decay",
                                                       "schedule",
                                                       "warmup_steps",
                                                       "num_epochs",
                                                       "max_steps",
                                                       "steps_per_epoch",
                                                       "num_examples",
                                                       "early_stop_accuracy",
                                                       "solved_accuracy",
                                                       "batch_order",
                                                       "data_seed",
                                                       "eval_batch_tokens",
                                                       "eval_piece_len"});

// Device first, then what the configs have, then the build; last what only some configs have, since
// it may be that another version had no such option.
std::vector<std::string> OrderedPaths(const std::vector<Leaves>& all) {
  std::vector<std::string> paths = DifferingPaths(all);
  const auto rank = [&](const std::string& path) {
    if (path == "device") return 0;
    if (path == "commit") return 2;
    if (path == "code" || path == "code id") return 3;
    const bool is_everywhere = std::all_of(
        all.begin(), all.end(), [&](const Leaves& leaves) { return leaves.contains(path); });
    return is_everywhere ? 1 : 4;
  };
  std::stable_sort(paths.begin(), paths.end(),
                   [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
  return paths;
}

}  // namespace

TimingSettings::TimingSettings(const SweepReport& report)
    : code_ids_(CodeIdsOf(report)),
      is_merged_(report.config.Find("merged") != nullptr),
      named_(TimingKeys(report)),
      free_(ChosenKeys(report.config)) {
  free_.insert(kFreeKeys.begin(), kFreeKeys.end());
  for (const CellResult& cell : report.cells) {
    if (!cell.throughput.empty()) told_[LeavesOfCell(cell)];
  }
  if (told_.size() < 2) return;
  std::vector<Leaves> all;
  for (const auto& [leaves, texts] : told_) all.push_back(leaves);
  const auto texts = TellingTexts(all, OrderedPaths(all));
  for (std::size_t i = 0; i < all.size(); ++i) told_[all[i]] = texts[i];
}

// Of one suite names say what it varies, and what they do not say goes with the mixer.
Leaves TimingSettings::LeavesOfCell(const CellResult& cell) const {
  Leaves leaves;
  if (is_merged_) {
    leaves = LeavesOf(cell.config);
    std::erase_if(leaves, [&](const auto& leaf) {
      return std::any_of(free_.begin(), free_.end(),
                         [&](const std::string& key) { return HasPart(leaf.first, key); });
    });
  }
  const Build build = BuildOf(cell);
  leaves["device"] = DeviceOf(cell);
  leaves["commit"] = build.commit.substr(0, 12);
  leaves["code"] = io::ShortHash(build.code);
  const auto ids = code_ids_.find({build, cell.experiment_id});
  if (ids != code_ids_.end() && ids->second.size() > 1) {
    leaves["code id"] = io::ShortHash(cell.code_id);
  }
  return leaves;
}

std::string TimingSettings::TextOf(const GroupSummary& group, const CellResult& cell) const {
  std::vector<std::string> texts;
  const auto add = [&](const std::string& text) {
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  };
  if (told_.size() > 1) {
    const auto told = told_.find(LeavesOfCell(cell));
    if (told != told_.end()) texts = told->second;
  }
  for (const auto& [key, value] : PartsOf(group)) {
    if (named_.contains(key)) add(PartText(key, value));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace mixerbench::reports
