// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/mad_compression/mad_compression_sampler.h"

namespace mixerbench::tasks::mad_compression {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("mad_compression", MakeDeviceGenerator<MadCompressionSampler>());
}

}  // namespace mixerbench::tasks::mad_compression
