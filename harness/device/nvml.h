// The functions of NVML, NVIDIA's management library, that are used here. It comes with the driver
// and not with CUDA, and no header of it with the pinned toolkit, so these declarations follow the
// library's ABI: every function returns 0 for success.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace mixerbench::harness {

using NvmlDevice = void*;  // opaque

struct NvmlUtilization {  // percent of the last sampling period, at most a second
  unsigned gpu = 0;
  unsigned memory = 0;
};

struct NvmlProcess {
  unsigned pid = 0;
  unsigned long long used_bytes = 0;  // all bits set: not known
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
};

inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlInsufficientSize = 7;
inline constexpr unsigned kNvmlSmClock = 1;
inline constexpr unsigned kNvmlMemoryClock = 2;

// A function that is empty is one that the library does not have.
struct NvmlFunctions {
  using ReadCount = std::function<int(NvmlDevice, unsigned*)>;
  using ReadLongCount = std::function<int(NvmlDevice, unsigned long long*)>;
  using ReadClock = std::function<int(NvmlDevice, unsigned kind, unsigned* mhz)>;
  using ReadMode = std::function<int(NvmlDevice, unsigned* current, unsigned* pending)>;

  std::function<int()> init;
  std::function<int(char* text, unsigned size)> driver_version;
  std::function<int(const char* pci_bus_id, NvmlDevice*)> find;
  std::function<int(NvmlDevice, char* text, unsigned size)> uuid;
  ReadClock clock;
  ReadClock max_clock;
  ReadCount power_limit;  // in force, mW
  ReadMode ecc_mode;
  ReadMode mig_mode;
  ReadLongCount throttle_reasons;  // bits
  ReadLongCount total_energy;      // mJ since the driver was loaded
  std::function<int(NvmlDevice, NvmlUtilization*)> utilization;
  // In: places in the array; out: processes.
  std::function<int(NvmlDevice, unsigned* count, NvmlProcess*)> compute_processes;
};

// Those of a shared library, which stays loaded; all empty where there is none.
NvmlFunctions LoadNvml(const char* file = "libnvidia-ml.so.1");

}  // namespace mixerbench::harness
