// The folder of one run on disk.
//
//   OUT/sweep.json                   the plan: what the folder is for (plan.h)
//   OUT/LOCK                         flock while the plan or the reports change
//   OUT/cells/<id>/config.json       one resolved cell, what a worker reads
//   OUT/cells/<id>/events.jsonl      append-only; a torn last line is harmless
//   OUT/cells/<id>/result.json       written atomically; its presence means "finished"
//   OUT/cells/<id>/items-<k>.jsonl   scored positions of a test segment (reports/items/items.h)
//   OUT/cells/<id>/checkpoint-*      state of an unfinished cell (checkpoint.h)
//   OUT/cells/<id>/strict/           the same in strict mode
//   OUT/cells/<id>/batch-<n>/        the same with smaller batches
//   OUT/cells/<id>/strict-batch-<n>/ and in strict mode
//   OUT/device-time.jsonl            how long devices worked here (device_time.h)
//   OUT/weights/*                    final weights, by training (training/weights.h)
//   OUT/weights/strict/*             those of strict trainings
//   OUT/cells/<id>/LOCK              flock while a process works on the cell
//   OUT/report.{json,md,html}        made from the cells at any time
//   OUT/*.log                        where --log-file may be
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "harness/suite/cell.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// Throws Error(kOutput) for a folder that holds files which are not ours, or is no folder.
void RequireOnlyOurs(const std::filesystem::path& out);

// Where attempts at a cell save their state: in its folder, or below it where they would end with
// other numbers: a strict cell never goes on from what was not strict. batch_size: of an attempt
// with smaller batches than the cell's; 0: with these.
std::filesystem::path CheckpointPath(const std::filesystem::path& cell_path, bool is_strict,
                                     std::int64_t batch_size);

// Of all attempts.
void RemoveCheckpoints(const std::filesystem::path& cell_path);

class RunFolder {
 public:
  // Creates the folder; throws as RequireOnlyOurs of one that is there.
  explicit RunFolder(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path CellPath(const Cell& cell) const;

  void MakeCellFolder(const Cell& cell) const;

  // Writes config.json of the cell unless it stands there. False when there was another one:
  // edited, damaged, or of another name.
  bool WriteConfig(const Cell& cell) const;

  // The finished result, or nothing. A file that is damaged or belongs to another run id counts as
  // nothing, with a note in `problem`. Throws Error(kBadInput) for one that cannot be read.
  std::optional<reports::CellResult> LoadResult(const Cell& cell, std::string* problem) const;

 private:
  std::filesystem::path path_;
};

// Exclusive right to work on a cell, given back when the process ends in whatever way. A file
// system without locks only loses the protection against other processes.
class CellLock {
 public:
  // nullopt when another process holds it. Throws Error(kOutput) when there can be no lock file.
  static std::optional<CellLock> TryAcquire(const std::filesystem::path& cell_path);
  CellLock(CellLock&& other) noexcept;
  CellLock& operator=(CellLock&& other) noexcept;
  CellLock(const CellLock&) = delete;
  CellLock& operator=(const CellLock&) = delete;
  ~CellLock();

  // Why it keeps nobody out; "" when it does.
  const std::string& problem() const { return problem_; }

 private:
  CellLock(int descriptor, std::string problem)
      : descriptor_(descriptor), problem_(std::move(problem)) {}
  int descriptor_ = -1;
  std::string problem_;
};

}  // namespace mixerbench::harness
