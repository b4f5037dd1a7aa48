// What fuzz targets share. A target takes any bytes: it may refuse them with a mixerbench::Error
// and nothing else. Everything that escapes, aborts or trips a sanitizer is a bug.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

// What libFuzzer and fuzz_replay.cc call.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace mixerbench::fuzz {

inline std::string_view Bytes(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Stops the fuzzer: a property does not hold.
inline void Demand(bool property) {
  if (!property) std::abort();
}

// Whether something has accepted the input: the corpus is kept by what it should be.
inline bool has_accepted = false;

// `read` may refuse its input.
template <typename Read>
void Try(const Read& read) {
  try {
    read();
    has_accepted = true;
  } catch (const Error&) {
  }
}

}  // namespace mixerbench::fuzz
