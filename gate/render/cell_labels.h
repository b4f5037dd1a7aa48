// What the cells of a comparison are called where people read them: mixers by their labels, of the
// setting what is not the same in all cells of the task.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gate/verdict/comparison.h"
#include "reports/view/mixer_list.h"
#include "reports/view/page.h"

namespace mixerbench::gate {

// "a, b"; one of them where the other is empty.
std::string Joined(const std::string& text, const std::string& more);

struct CellLabel {
  int mixer = reports::kNoMixer;  // index into CellLabels::styles
  std::string name;               // "Gated DeltaNet"; all of what names no cell
  std::string setting;            // "64 tokens, lr 1e-3"; may be empty
  std::string task;               // "mqar"; may be empty

  std::string Text() const;  // "mqar, Gated DeltaNet, 64 tokens"
};

class CellLabels {
 public:
  // Of the cells that rows, details and notes are about.
  explicit CellLabels(const Comparison& comparison);

  CellLabel Of(const std::string& cell) const;
  const std::vector<reports::MixerStyle>& styles() const { return mixers_.styles(); }

  // "64 tokens, d 64" that all cells of a task share, by task; without tasks that share nothing.
  const std::map<std::string, std::string>& shared() const { return shared_; }

  // All names, sorted.
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  reports::MixerList mixers_;
  // By task and key the number of cells that have each value.
  std::map<std::string, std::map<std::string, std::map<std::string, std::size_t>>> values_;
  std::map<std::string, std::size_t> num_cells_;  // by task
  std::map<std::string, std::string> shared_;
};

}  // namespace mixerbench::gate
