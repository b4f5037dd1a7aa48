// SPDX-License-Identifier: Apache-2.0
#include "harness/device/gpu_monitor.h"

#include <array>
#include <limits>
#include <string_view>
#include <utility>

namespace mixerbench::harness {
namespace {

constexpr std::size_t kTextSize = 96;  // of what NVML writes, its end included

constexpr std::array<std::string_view, 9> kThrottleNames = {"gpu_idle",
                                                            "applications_clocks_setting",
                                                            "sw_power_cap",
                                                            "hw_slowdown",
                                                            "sync_boost",
                                                            "sw_thermal_slowdown",
                                                            "hw_thermal_slowdown",
                                                            "hw_power_brake_slowdown",
                                                            "display_clock_setting"};  // by bit

template <typename Wide, typename Number>
std::optional<Wide> Widen(const std::optional<Number>& number) {
  return number ? std::optional(static_cast<Wide>(*number)) : std::nullopt;
}

// Thousandths of a unit.
template <typename Number>
std::optional<double> FromMilli(const std::optional<Number>& number) {
  return number ? std::optional(static_cast<double>(*number) / 1e3) : std::nullopt;
}

}  // namespace

std::vector<std::string> ThrottleNames(std::uint64_t bits) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::numeric_limits<std::uint64_t>::digits; ++i) {
    if ((bits >> i & 1) == 0) continue;
    names.push_back(i < kThrottleNames.size() ? std::string(kThrottleNames[i])
                                              : "bit_" + std::to_string(i));
  }
  return names;
}

GpuMonitor::GpuMonitor(NvmlFunctions functions, const std::string& pci_bus_id)
    : functions_(std::move(functions)) {
  // Calls of init are counted; without an end to match, NVML works until the process ends.
  if (!functions_.init || functions_.init() != kNvmlSuccess || !functions_.find) return;
  if (functions_.find(pci_bus_id.c_str(), &device_) != kNvmlSuccess) device_ = nullptr;
}

GpuMonitor GpuMonitor::At(const std::string& pci_bus_id) {
  return pci_bus_id.empty() ? GpuMonitor() : GpuMonitor(LoadNvml(), pci_bus_id);
}

template <typename Number, typename Function, typename... Arguments>
std::optional<Number> GpuMonitor::Read(const Function& function, Arguments... arguments) const {
  Number number{};
  if (device_ == nullptr || !function || function(device_, arguments..., &number) != kNvmlSuccess) {
    return std::nullopt;
  }
  return number;
}

std::optional<bool> GpuMonitor::ReadMode(const NvmlFunctions::ReadMode& function) const {
  unsigned current = 0;
  unsigned pending = 0;
  if (device_ == nullptr || !function || function(device_, &current, &pending) != kNvmlSuccess) {
    return std::nullopt;
  }
  return current != 0;
}

std::optional<std::string> GpuMonitor::DriverVersion() const {
  std::array<char, kTextSize> text{};
  if (device_ == nullptr || !functions_.driver_version ||
      functions_.driver_version(text.data(), text.size()) != kNvmlSuccess) {
    return std::nullopt;
  }
  return text.data();
}

std::optional<std::string> GpuMonitor::Uuid() const {
  std::array<char, kTextSize> text{};
  if (device_ == nullptr || !functions_.uuid ||
      functions_.uuid(device_, text.data(), text.size()) != kNvmlSuccess) {
    return std::nullopt;
  }
  return text.data();
}

std::optional<std::int64_t> GpuMonitor::SmClockMhz() const {
  return Widen<std::int64_t>(Read<unsigned>(functions_.clock, kNvmlSmClock));
}

std::optional<std::int64_t> GpuMonitor::MaxSmClockMhz() const {
  return Widen<std::int64_t>(Read<unsigned>(functions_.max_clock, kNvmlSmClock));
}

std::optional<std::int64_t> GpuMonitor::MemoryClockMhz() const {
  return Widen<std::int64_t>(Read<unsigned>(functions_.clock, kNvmlMemoryClock));
}

std::optional<std::int64_t> GpuMonitor::MaxMemoryClockMhz() const {
  return Widen<std::int64_t>(Read<unsigned>(functions_.max_clock, kNvmlMemoryClock));
}

std::optional<double> GpuMonitor::PowerLimitWatts() const {
  return FromMilli(Read<unsigned>(functions_.power_limit));
}

std::optional<bool> GpuMonitor::HasEcc() const { return ReadMode(functions_.ecc_mode); }

std::optional<bool> GpuMonitor::HasMig() const { return ReadMode(functions_.mig_mode); }

std::optional<std::uint64_t> GpuMonitor::ThrottleReasons() const {
  return Widen<std::uint64_t>(Read<unsigned long long>(functions_.throttle_reasons));
}

std::optional<double> GpuMonitor::EnergyJoules() const {
  return FromMilli(Read<unsigned long long>(functions_.total_energy));
}

std::optional<std::int64_t> GpuMonitor::UtilizationPercent() const {
  const auto rates = Read<NvmlUtilization>(functions_.utilization);
  return rates ? std::optional(static_cast<std::int64_t>(rates->gpu)) : std::nullopt;
}

std::optional<std::vector<GpuProcess>> GpuMonitor::ComputeProcesses() const {
  if (device_ == nullptr || !functions_.compute_processes) return std::nullopt;
  std::vector<NvmlProcess> found(16);
  auto count = static_cast<unsigned>(found.size());
  int error = functions_.compute_processes(device_, &count, found.data());
  while (error == kNvmlInsufficientSize && count > found.size()) {
    found.resize(2 * std::size_t{count});  // more may have come meanwhile
    count = static_cast<unsigned>(found.size());
    error = functions_.compute_processes(device_, &count, found.data());
  }
  if (error != kNvmlSuccess) return std::nullopt;
  found.resize(count);
  std::vector<GpuProcess> processes;
  for (const NvmlProcess& process : found) {
    const bool is_known = process.used_bytes != std::numeric_limits<unsigned long long>::max();
    processes.push_back(
        {process.pid,
         is_known ? std::optional(static_cast<std::int64_t>(process.used_bytes)) : std::nullopt});
  }
  return processes;
}

}  // namespace mixerbench::harness
