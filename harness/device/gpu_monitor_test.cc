// SPDX-License-Identifier: Apache-2.0
#include "harness/device/gpu_monitor.h"

#include "harness/device/fake_gpu.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("gpu monitor: reasons for lower clocks have names") {
  CHECK(ThrottleNames(0).empty());
  CHECK(ThrottleNames(0x5) == Names{"gpu_idle", "sw_power_cap"});
  CHECK(ThrottleNames(kSlowdown) == Names{"hw_slowdown", "sw_thermal_slowdown",
                                          "hw_thermal_slowdown", "hw_power_brake_slowdown"});
  CHECK(ThrottleNames(0x300) == Names{"display_clock_setting", "bit_9"});
}

TEST_CASE("gpu monitor: units, and what is not supported") {
  FakeGpu fake{.sm_mhz = std::nullopt, .power_limit_mw = 350'500, .ecc = 0};
  fake.energy_mj = [] { return 12'345'678ull; };
  const GpuMonitor gpu = fake.Monitor();
  CHECK(gpu.PowerLimitWatts() == 350.5);
  CHECK(gpu.EnergyJoules() == 12345.678);
  CHECK(gpu.HasEcc() == false);
  CHECK_FALSE(gpu.HasMig());
  CHECK_FALSE(gpu.SmClockMhz());
  CHECK(gpu.MaxSmClockMhz() == 1980);
  fake.energy_mj = [] { return std::nullopt; };
  CHECK_FALSE(gpu.EnergyJoules());
}

TEST_CASE("gpu monitor: every process, however many") {
  FakeGpu fake;
  fake.processes = [] {
    std::vector<NvmlProcess> many(100);
    for (unsigned i = 0; i < 100; ++i) many[i] = {.pid = i, .used_bytes = ~0ull};
    many[99].used_bytes = 5;
    return many;
  };
  const auto processes = fake.Monitor().ComputeProcesses();
  REQUIRE(processes);
  REQUIRE(processes->size() == 100);
  CHECK(processes->at(98).pid == 98);
  CHECK_FALSE(processes->at(98).used_bytes);
  CHECK(processes->at(99).used_bytes == 5);
}

TEST_CASE("gpu monitor: there is none of the CPU, nor where NVML does not start") {
  CHECK_FALSE(GpuMonitor::At("").DriverVersion());
  NvmlFunctions functions;
  functions.init = [] { return 9; };  // the driver is not loaded
  functions.find = [](const char*, NvmlDevice*) -> int { throw std::logic_error("asked"); };
  CHECK_FALSE(GpuMonitor(functions, "").Uuid());
}

}  // namespace
}  // namespace mixerbench::harness
