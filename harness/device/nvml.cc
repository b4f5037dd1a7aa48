// SPDX-License-Identifier: Apache-2.0
#include "harness/device/nvml.h"

#include <dlfcn.h>
#include <initializer_list>

namespace mixerbench::harness {
namespace {

// The first of these names that the library exports.
template <typename Result, typename... Arguments>
void Load(void* library, std::initializer_list<const char*> names,
          std::function<Result(Arguments...)>& function) {
  for (const char* name : names) {
    if (void* const symbol = dlsym(library, name)) {
      function = reinterpret_cast<Result (*)(Arguments...)>(symbol);
      return;
    }
  }
}

}  // namespace

NvmlFunctions LoadNvml(const char* file) {
  NvmlFunctions functions;
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return functions;
  Load(library, {"nvmlInit_v2"}, functions.init);
  Load(library, {"nvmlSystemGetDriverVersion"}, functions.driver_version);
  Load(library, {"nvmlDeviceGetHandleByPciBusId_v2"}, functions.find);
  Load(library, {"nvmlDeviceGetUUID"}, functions.uuid);
  Load(library, {"nvmlDeviceGetClockInfo"}, functions.clock);
  Load(library, {"nvmlDeviceGetMaxClockInfo"}, functions.max_clock);
  Load(library, {"nvmlDeviceGetEnforcedPowerLimit"}, functions.power_limit);
  Load(library, {"nvmlDeviceGetEccMode"}, functions.ecc_mode);
  Load(library, {"nvmlDeviceGetMigMode"}, functions.mig_mode);
  // The second is the newer name of the first.
  Load(library,
       {"nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons"},
       functions.throttle_reasons);
  Load(library, {"nvmlDeviceGetTotalEnergyConsumption"}, functions.total_energy);
  Load(library, {"nvmlDeviceGetUtilizationRates"}, functions.utilization);
  Load(library, {"nvmlDeviceGetComputeRunningProcesses_v3"}, functions.compute_processes);
  return functions;
}

}  // namespace mixerbench::harness
