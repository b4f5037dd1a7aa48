// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_generate.cuh"
#include "tasks/phonebook_tok/phonebook_tok_sampler.h"

namespace mixerbench::tasks::phonebook_tok {

void RegisterDevice(DeviceGeneratorRegistry& registry) {
  registry.Add("phonebook_tok", MakeDeviceGenerator<PhonebookTokSampler>());
}

}  // namespace mixerbench::tasks::phonebook_tok
