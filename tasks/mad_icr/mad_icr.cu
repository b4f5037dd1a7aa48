// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/mad_icr/mad_icr_sampler.h"

namespace mixerbench::tasks::mad_icr {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("mad_icr", MakeDeviceGenerator<MadIcrSampler>());
}

}  // namespace mixerbench::tasks::mad_icr
