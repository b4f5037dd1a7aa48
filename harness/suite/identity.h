// Who a cell is: hashes of everything that can change its result, and of nothing else.
//
// experiment  what was asked: task, model, training, device type. Pairs a base with a candidate.
// code        what answers: the sources behind the task, the mixers, the backbone and the training,
//             comments and layout aside, and the version of libtorch. Other units are no part of
//             it. Of a mixer in Python: its sources and the package that calls it, byte by byte.
// data        every sample that the cell can draw. A sample is a function of the task's code and
//             texts, its options, the content of the files that these name, the seed, the split and
//             an index, so a hash of those covers all of them; samples from both ends of each
//             segment are hashed as well, which shows whether two machines run that function alike.
// training    the part of all this, and of the seed, that the weights come of: other test segments
//             make another cell of the same training, as evaluating it or looking into it does.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "tasks/task.h"

namespace mixerbench::harness {

class CellIdentifier {
 public:
  // The registries must outlive it.
  explicit CellIdentifier(const Registries& registries) : registries_(registries) {}

  // Sets the ids of a cell from the rest of it. Throws Error(kBadInput) for a file that cannot be
  // read.
  void Identify(Cell& cell);

 private:
  Value DescribeExperiment(const Cell& cell);
  // Segments with the content of files in place of their names.
  Value DescribeSegments(const std::vector<Segment>& segments);
  Value HashSplit(const TaskPlan& plan, const std::vector<Segment>& segments, std::uint64_t seed,
                  tasks::Split split);
  std::string HashFile(const std::string& path);

  const Registries& registries_;
  std::map<std::string, std::string> splits_;  // that many cells share
  std::map<std::string, std::string> files_;
};

// Whether a mixer of an identified cell is a module of a user, in Python.
bool RunsPython(const Cell& cell);
// Of the classes in Python that it runs, by name; empty where it runs none.
Object PythonCodeOf(const Cell& cell);

}  // namespace mixerbench::harness
