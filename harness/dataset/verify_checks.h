// The checks of `verify`: facts of one data set and what is wrong with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/value.h"
#include "tasks/dataset_checks.h"
#include "tasks/task.h"

namespace mixerbench::harness {

// Collected check by check.
struct Check {
  Object facts;      // for JSON
  std::string text;  // the same as a line
  std::vector<std::string> faults;
};

// Training samples of one setting.
struct TrainStream {
  std::unique_ptr<tasks::Task> task;
  tasks::PhiloxKey key;
  std::int64_t count = 0;
};

// The training data that belong to samples of `params`: those of the preset, else `count` samples
// of the training split with the same options.
std::vector<TrainStream> TrainStreams(const tasks::TaskEntry& entry, const std::string& preset_name,
                                      const Value& params, std::uint64_t seed, std::int64_t count);

// Counts inputs that occur twice, and those that occur among the first `max_train` samples of each
// of `train`, as far as memory allows. Warns on stderr where more than a thousandth is shared.
void CheckRepetitions(const tasks::TaskSamples& range, const std::vector<TrainStream>& train,
                      std::int64_t max_train, int num_threads, Check& check);

// Holds the first labels against the oracle, and guessing against the declared chance.
void CheckAgainstOracle(const tasks::TaskSamples& range, Check& check);

// Says which share of the answers a learner of `train` can know, where it is not all.
void FindCeiling(const tasks::TaskSamples& range, const std::vector<TrainStream>& train,
                 Check& check);

// Makes the samples with one thread in order, and with several in another order.
void CheckRepeatability(const tasks::TaskSamples& range, int num_threads, Check& check);

}  // namespace mixerbench::harness
