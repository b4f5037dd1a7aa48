// The files of a data set: their names, their bytes, and writing them. Checking makes the same
// bytes again and compares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/sha256.h"
#include "harness/dataset/dataset.h"
#include "io/sample_file.h"
#include "tasks/generate.h"

namespace mixerbench::harness {

// Makes the bytes of the file that holds samples first..first+count-1 of a part, in pieces, and
// feeds the canonical stream of these samples (io/dataset_manifest.h) to `stream`.
using FileMaker = std::function<void(const DatasetPart& part, std::uint64_t first,
                                     std::int64_t count, const io::PutBytes& put, Sha256& stream)>;

// Tokens and labels. The arguments must outlive the maker.
FileMaker TokenFileMaker(const Dataset& dataset, io::SampleFormat format, io::ElementType dtype,
                         const tasks::BatchGenerator& generate, int num_threads);

// A batch generator on the CPU.
tasks::BatchGenerator CpuGenerator(int num_threads);

// `requested` threads, or one per core for 0.
int NumThreads(std::int64_t requested);

// Makes each part in `num_shards` files named after `out` ("train.npy", or
// "train-<part>-00000-of-00004.npy"), and then `<out>.manifest.json`. Every file is there
// completely or not at all, and the manifest only when all files are: it is removed first and
// written last. `base` holds what the manifest says besides the parts. Errors: Error(kOutput).
void WriteDataset(const Dataset& dataset, const std::string& out, std::int64_t num_shards,
                  const FileMaker& make, io::DatasetManifest base);

// What a manifest says of `dataset` besides its parts and its format.
io::DatasetManifest ManifestOf(const Dataset& dataset);

inline constexpr const char* kManifestSuffix = ".manifest.json";

}  // namespace mixerbench::harness
