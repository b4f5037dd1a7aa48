// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/vocab_majority/vocab_majority_sampler.h"

namespace mixerbench::tasks::vocab_majority {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("vocab_majority", MakeDeviceGenerator<VocabMajoritySampler>());
}

}  // namespace mixerbench::tasks::vocab_majority
