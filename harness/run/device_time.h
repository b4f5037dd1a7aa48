// How long devices had cells of a run folder to work on, over all its runs: OUT/device-time.jsonl,
// to which every run appends, so that a kill costs no more than the last seconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace mixerbench::harness {

inline constexpr const char* kDeviceTimeFile = "device-time.jsonl";

// What runs in a folder have noted; lines that are torn or damaged count for nothing.
double NotedDeviceTime(const std::filesystem::path& out);

class DeviceTime {
 public:
  explicit DeviceTime(const std::filesystem::path& out);
  ~DeviceTime();
  DeviceTime(const DeviceTime&) = delete;
  DeviceTime& operator=(const DeviceTime&) = delete;

  // Notes them now and then. Throws Error(kOutput) when that cannot be done.
  void Add(double seconds);

  // Of all runs in the folder, those that go on in other processes included, as far as they noted
  // it when this one last did.
  double total() const { return noted_ + fresh_; }

 private:
  void Note();

  std::filesystem::path out_;
  double noted_ = 0;
  double fresh_ = 0;  // not in the file yet
};

}  // namespace mixerbench::harness
