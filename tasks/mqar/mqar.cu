// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/mqar/mqar_sampler.h"

namespace mixerbench::tasks::mqar {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("mqar", MakeDeviceGenerator<MqarSampler>());
}

}  // namespace mixerbench::tasks::mqar
