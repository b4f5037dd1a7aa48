// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/mad_fuzzy/mad_fuzzy_sampler.h"

namespace mixerbench::tasks::mad_fuzzy {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("mad_fuzzy", MakeDeviceGenerator<MadFuzzySampler>());
}

}  // namespace mixerbench::tasks::mad_fuzzy
