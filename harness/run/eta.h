// How long the rest of a run will take, from what its cells took so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mixerbench::harness {

class Eta {
 public:
  // What tells how long a cell takes: those of one group differ in the seed alone.
  struct CellType {
    std::string kind;  // of work, such as training
    std::string group;
  };

  struct Running {
    CellType type;
    double elapsed_s = 0;
    double share_done = 0;  // of its steps; it may stop early
    // The part of it that was done while somebody watched: a cell may continue where it stopped.
    double share_seen = 0;
    double seen_s = 0;
    std::size_t worker = 0;
  };

  struct Waiting {
    CellType type;
    bool alone = false;  // has a worker to itself
  };

  struct Left {
    double seconds = 0;
    bool at_least = false;  // nothing is known of a cell, or it outlasts what was expected
  };

  Eta(std::size_t num_workers, std::int64_t cells_per_worker);

  // A cell of this type took so long, in whatever company.
  void Add(const CellType& type, double seconds);

  // How long a cell takes, in seconds: by cells of its group, else of its kind; nothing without
  // any.
  std::optional<double> Expected(const CellType& type) const;

  // How long devices work on these cells, as `--max-gpu-hours` counts: those that share a device at
  // once count once. At least, when nothing is known of a cell.
  Left DeviceTime(const std::vector<Waiting>& waiting) const;

  Left Estimate(const std::vector<Running>& running, const std::vector<Waiting>& waiting) const;

 private:
  struct Mean {
    double sum = 0;
    double count = 0;
    double value() const { return sum / count; }
  };

  std::optional<double> ExpectedOfGroup(const CellType& type) const;
  // Of a running cell; nothing when it should be done, or nothing is known.
  std::optional<double> Rest(const Running& cell) const;

  std::size_t num_workers_;
  std::size_t cells_per_worker_;
  std::map<std::pair<std::string, std::string>, Mean> groups_;  // by kind and group
  std::map<std::string, Mean> kinds_;
};

// "3m20s", "> 3m20s" or "?".
std::string FormatLeft(const Eta::Left& left);

// "1h04m", "3m20s", "12s".
std::string FormatDuration(double seconds);

}  // namespace mixerbench::harness
