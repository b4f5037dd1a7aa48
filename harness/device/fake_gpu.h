// A GPU whose driver tells what a test wants.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "harness/device/gpu_monitor.h"

namespace mixerbench::harness {

// Must outlive its monitors. What is nothing is not supported.
struct FakeGpu {
  std::string driver = "580.95.05";
  std::string uuid = "GPU-6e2d1d3c";
  std::optional<unsigned> sm_mhz = 1905;
  std::optional<unsigned> max_sm_mhz = 1980;
  std::optional<unsigned> power_limit_mw = 700'000;
  std::optional<unsigned> ecc = 1;
  std::function<std::optional<unsigned long long>()> throttle = [] { return 0; };
  std::function<std::optional<unsigned long long>()> energy_mj = [] { return 0; };
  std::function<std::optional<unsigned>()> busy_percent = [] { return 0; };
  std::function<std::optional<std::vector<NvmlProcess>>()> processes = [] {
    return std::vector<NvmlProcess>();
  };

  GpuMonitor Monitor() {
    constexpr int kNotSupported = 3;
    const auto set = [](const auto& from, auto* to) {
      if (from) *to = *from;
      return from ? kNvmlSuccess : kNotSupported;
    };
    const auto text = [](const std::string& from, char* to, unsigned size) {
      if (from.size() >= size) return kNvmlInsufficientSize;
      std::memcpy(to, from.c_str(), from.size() + 1);
      return kNvmlSuccess;
    };
    NvmlFunctions functions;
    functions.init = [] { return kNvmlSuccess; };
    functions.find = [this](const char*, NvmlDevice* device) {
      *device = this;
      return kNvmlSuccess;
    };
    functions.driver_version = [=, this](char* to, unsigned size) {
      return text(driver, to, size);
    };
    functions.uuid = [=, this](NvmlDevice, char* to, unsigned size) {
      return text(uuid, to, size);
    };
    functions.clock = [=, this](NvmlDevice, unsigned kind, unsigned* to) {
      return kind == kNvmlSmClock ? set(sm_mhz, to) : kNotSupported;
    };
    functions.max_clock = [=, this](NvmlDevice, unsigned kind, unsigned* to) {
      return kind == kNvmlSmClock ? set(max_sm_mhz, to) : kNotSupported;
    };
    functions.power_limit = [=, this](NvmlDevice, unsigned* to) { return set(power_limit_mw, to); };
    functions.ecc_mode = [=, this](NvmlDevice, unsigned* to, unsigned*) { return set(ecc, to); };
    functions.throttle_reasons = [=, this](NvmlDevice, unsigned long long* to) {
      return set(throttle(), to);
    };
    functions.total_energy = [=, this](NvmlDevice, unsigned long long* to) {
      return set(energy_mj(), to);
    };
    functions.utilization = [=, this](NvmlDevice, NvmlUtilization* to) {
      return set(busy_percent(), &to->gpu);
    };
    functions.compute_processes = [this](NvmlDevice, unsigned* count, NvmlProcess* to) {
      const auto found = processes();
      if (!found) return kNotSupported;
      const bool fits = found->size() <= *count;
      *count = static_cast<unsigned>(found->size());
      if (!fits) return kNvmlInsufficientSize;
      for (const NvmlProcess& process : *found) *to++ = process;
      return kNvmlSuccess;
    };
    return {functions, "0000:17:00.0"};
  }
};

}  // namespace mixerbench::harness
