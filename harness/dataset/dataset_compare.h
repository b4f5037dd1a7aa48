// Files of a data set against what they should hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "harness/dataset/dataset_files.h"

namespace mixerbench::harness {

// What is wrong with the files of one part, one line each; empty when every byte is as recorded and
// as `make` makes it. `folder` is that of the manifest.
// Errors: Error(kBadInput) for a file that is missing or cannot be read.
std::vector<std::string> CompareFiles(const Dataset& dataset, const DatasetPart& part,
                                      const io::DatasetManifest& manifest,
                                      const io::DatasetPart& record, const std::string& folder,
                                      const FileMaker& make, int num_threads);

}  // namespace mixerbench::harness
