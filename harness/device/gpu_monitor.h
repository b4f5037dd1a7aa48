// What the driver tells of a GPU beside CUDA: clocks, power, why it is slowed down, who uses it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/device/nvml.h"

namespace mixerbench::harness {

// Reasons for clocks below the highest, as bits of NVML. These are of a GPU that is too hot, or
// whose power supply asks for less: what is timed then is not what the GPU can do. The others go
// with any full load, or with none.
inline constexpr std::uint64_t kGpuIdle = 0x1;
inline constexpr std::uint64_t kSlowdown = 0x8 | 0x20 | 0x40 | 0x80;

// {"sw_power_cap", "hw_slowdown"}; a bit without a name as "bit_9".
std::vector<std::string> ThrottleNames(std::uint64_t bits);

struct GpuProcess {
  std::int64_t pid = 0;
  std::optional<std::int64_t> used_bytes;
};

// Absent is what the driver does not tell: there is no NVML, or none of it for this GPU. May be
// used by several threads.
class GpuMonitor {
 public:
  // Of no GPU: everything is absent.
  GpuMonitor() = default;
  // Of the GPU at an address of the PCI bus, "0000:17:00.0".
  GpuMonitor(NvmlFunctions functions, const std::string& pci_bus_id);
  // The same by the library of this machine; of no GPU for "".
  static GpuMonitor At(const std::string& pci_bus_id);

  std::optional<std::string> DriverVersion() const;  // "580.95.05"
  std::optional<std::string> Uuid() const;
  std::optional<std::int64_t> SmClockMhz() const;
  std::optional<std::int64_t> MaxSmClockMhz() const;
  std::optional<std::int64_t> MemoryClockMhz() const;
  std::optional<std::int64_t> MaxMemoryClockMhz() const;
  std::optional<double> PowerLimitWatts() const;
  std::optional<bool> HasEcc() const;
  std::optional<bool> HasMig() const;
  std::optional<std::uint64_t> ThrottleReasons() const;  // bits, now
  // Of the whole GPU since its driver was loaded. The counter moves in steps of up to 0.1 s.
  std::optional<double> EnergyJoules() const;
  std::optional<std::int64_t> UtilizationPercent() const;  // of the last second at most
  std::optional<std::vector<GpuProcess>> ComputeProcesses() const;

 private:
  template <typename Number, typename Function, typename... Arguments>
  std::optional<Number> Read(const Function& function, Arguments... arguments) const;
  std::optional<bool> ReadMode(const NvmlFunctions::ReadMode& function) const;

  NvmlFunctions functions_;
  NvmlDevice device_ = nullptr;
};

}  // namespace mixerbench::harness
