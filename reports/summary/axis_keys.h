// What the names of cells call the axes of a sweep: "lr=0.003" is a value of train.lr.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/value.h"

namespace mixerbench::reports {

// Of a suite's sweep, by the paths of its axes, grid and zip: the shortest end of a path that no
// other axis has. Of train.lr it is "lr"; of task.train.num_examples and task.test.num_examples it
// is "train.num_examples" and "test.num_examples".
std::map<std::string, std::string> AxisKeys(const Value& suite);

// Of the axes among whose values a suite chooses (SelectedOver); of a plan that merged several
// suites, of all of them.
std::set<std::string> ChosenKeys(const Value& suite);

}  // namespace mixerbench::reports
