// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/selective_copying/selective_copying_sampler.h"

namespace mixerbench::tasks::selective_copying {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("selective_copying", MakeDeviceGenerator<SelectiveCopyingSampler>());
}

}  // namespace mixerbench::tasks::selective_copying
