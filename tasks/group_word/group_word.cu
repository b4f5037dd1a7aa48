// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/group_word/group_word_sampler.h"

namespace mixerbench::tasks::group_word {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("group_word", MakeDeviceGenerator<GroupWordSampler>());
}

}  // namespace mixerbench::tasks::group_word
