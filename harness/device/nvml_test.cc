// SPDX-License-Identifier: Apache-2.0
#include "harness/device/nvml.h"

#include "harness/device/gpu_monitor.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

constexpr const char* kFake = "harness/device/libfake-nvml.so";
constexpr const char* kBus = "0000:17:00.0";

TEST_CASE("nvml: without the library there are no functions, and a GPU has no answers") {
  const NvmlFunctions none = LoadNvml("libno-such-nvml.so.1");
  CHECK_FALSE(none.init);
  CHECK_FALSE(none.total_energy);
  const GpuMonitor gpu(none, kBus);
  CHECK_FALSE(gpu.DriverVersion());
  CHECK_FALSE(gpu.ThrottleReasons());
  CHECK_FALSE(gpu.ComputeProcesses());
}

TEST_CASE("nvml: the functions are those of the library") {
  const GpuMonitor gpu(LoadNvml(kFake), kBus);
  CHECK(gpu.DriverVersion() == "580.95.05");
  CHECK(gpu.Uuid() == "GPU-12");
  CHECK(gpu.SmClockMhz() == 1905);
  CHECK(gpu.MaxSmClockMhz() == 1980);
  CHECK(gpu.MemoryClockMhz() == 2600);
  CHECK(gpu.MaxMemoryClockMhz() == 2619);
  CHECK(gpu.PowerLimitWatts() == 700);
  CHECK(gpu.HasEcc() == true);
  CHECK_FALSE(gpu.HasMig());            // not supported
  CHECK(gpu.ThrottleReasons() == 0x4);  // by its newer name
  CHECK_FALSE(gpu.EnergyJoules());      // this library lacks the function
  CHECK(gpu.UtilizationPercent() == 97);
  const auto processes = gpu.ComputeProcesses();
  REQUIRE(processes);
  REQUIRE(processes->size() == 1);
  CHECK(processes->front().pid == 4242);
  CHECK(processes->front().used_bytes == std::int64_t{1} << 31);
}

TEST_CASE("nvml: a GPU that it does not know has no answers") {
  const GpuMonitor gpu(LoadNvml(kFake), "0000:99:00.0");
  CHECK_FALSE(gpu.Uuid());
  CHECK_FALSE(gpu.SmClockMhz());
}

}  // namespace
}  // namespace mixerbench::harness
