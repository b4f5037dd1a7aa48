// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/induction_heads/induction_heads_sampler.h"

namespace mixerbench::tasks::induction_heads {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("induction_heads", MakeDeviceGenerator<InductionHeadsSampler>());
}

}  // namespace mixerbench::tasks::induction_heads
