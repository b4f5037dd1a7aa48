// The form of what suites and collections say beside task, model and training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/form.h"

namespace mixerbench::harness {

const io::Form& SeedsForm();  // "/seeds"
const io::Form& SweepForm();  // "/sweep"
const io::Form& TapsForm();   // "taps" of an item of "/analyse"
const io::Form& CollectionForm();

}  // namespace mixerbench::harness
