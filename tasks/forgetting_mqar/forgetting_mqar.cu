// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/forgetting_mqar/forgetting_mqar_sampler.h"

namespace mixerbench::tasks::forgetting_mqar {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("forgetting_mqar", MakeDeviceGenerator<ForgettingMqarSampler>());
}

}  // namespace mixerbench::tasks::forgetting_mqar
