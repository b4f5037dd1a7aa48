// SPDX-License-Identifier: Apache-2.0
#include "tasks/circuits/circuits_sampler.h"
#include "tasks/device_generate.cuh"

namespace mixerbench::tasks::circuits {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("circuits", MakeDeviceGenerator<CircuitsSampler>());
}

}  // namespace mixerbench::tasks::circuits
