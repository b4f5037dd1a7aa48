// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/mad_selective_copying/mad_selective_copying_sampler.h"

namespace mixerbench::tasks::mad_selective_copying {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("mad_selective_copying", MakeDeviceGenerator<MadSelectiveCopyingSampler>());
}

}  // namespace mixerbench::tasks::mad_selective_copying
