// The test segments of a cell, scored one after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "harness/cells/train.h"
#include "harness/evaluation/evaluate.h"
#include "harness/evaluation/item_file.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "harness/training/model.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

class TestRun {
 public:
  // What is passed by reference must outlive it. `built_for`: inputs of up to so many tokens.
  TestRun(const Cell& cell, const Model& model, std::int64_t built_for, GraphContext& graphs,
          const Registries& registries, const RunControl& control, reports::CellResult& result)
      : cell_(cell),
        model_(model),
        built_for_(built_for),
        graphs_(graphs),
        registries_(registries),
        control_(control),
        result_(result) {}

  // Runs the first batch of every segment.
  void Probe();

  // Enters rows of the segments that have none yet. The model has learnt from the first `step`
  // steps on `train_sources`; `checkpoint` is called before every batch, and what it throws as
  // Interrupted or TimedOut ends the run. What else goes wrong with a segment is its row.
  void Run(const std::vector<SegmentSource>& train_sources, std::int64_t step,
           const SegmentEvaluator::Checkpoint& checkpoint);

  std::size_t num_tested() const { return num_tested_; }  // segments that have their rows
  // Goes on where an earlier attempt of the cell was; from the start when its items are missing.
  void Continue(std::size_t num_tested);

 private:
  std::vector<SegmentSource> Sources() const;
  std::vector<reports::AccuracyRow> Score(const SegmentSource& source, const Object& axes,
                                          const SegmentEvaluator::Checkpoint& checkpoint);
  std::unique_ptr<ItemFile> ItemFileOf(const SegmentSource& source) const;
  void KeepItems(ItemFile& file);

  const Cell& cell_;
  const Model& model_;
  std::int64_t built_for_;
  GraphContext& graphs_;
  const Registries& registries_;
  const RunControl& control_;
  reports::CellResult& result_;
  std::size_t num_tested_ = 0;
};

}  // namespace mixerbench::harness
