// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/mad_memorization/mad_memorization_sampler.h"

namespace mixerbench::tasks::mad_memorization {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("mad_memorization", MakeDeviceGenerator<MadMemorizationSampler>());
}

}  // namespace mixerbench::tasks::mad_memorization
