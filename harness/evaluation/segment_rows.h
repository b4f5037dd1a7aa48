// Accuracy rows of evaluation segments before anything is scored: what they are called, and what a
// segment shows that was never scored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "harness/suite/cell.h"
#include "harness/suite/task_plan.h"
#include "reports/result/result.h"
#include "tasks/task.h"

namespace mixerbench::harness {

// Of each test segment of a cell, the options that differ between them, and in cells that use the
// training of another between them and what was trained on; plus "input_seq_len" when the task has
// it, and the intervention of a cell that has one, so that its rows are never taken for plain ones.
std::vector<Object> SegmentAxes(const Cell& cell);

// "input_seq_len 48, num_kv_pairs 4".
std::string AxesText(const Object& axes);

// What a report says of a task's baselines, in their order.
std::vector<reports::Guess> GuessesOf(const std::vector<tasks::Baseline>& baselines);

// The row of a whole segment without scores: chance, guesses, state and reason.
reports::AccuracyRow UnscoredRow(const tasks::Task& task, const Object& axes,
                                 reports::CellState state, const std::string& reason);

// Gives a cell that scores and failed a row for every test segment that it has none of, so that
// reports show what was asked for, whatever happened to it.
void AddMissingRows(const Cell& cell, const tasks::TaskRegistry& registry,
                    reports::CellResult& result);

}  // namespace mixerbench::harness
