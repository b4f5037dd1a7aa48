// SPDX-License-Identifier: Apache-2.0
#include "tasks/compositional_mqar/compositional_mqar_sampler.h"
#include "tasks/device_generate.cuh"

namespace mixerbench::tasks::compositional_mqar {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("compositional_mqar", MakeDeviceGenerator<CompositionalMqarSampler>());
}

}  // namespace mixerbench::tasks::compositional_mqar
