// What fuzz targets share. A target takes any bytes: it may refuse them with a mixerbench::Error and
// nothing else. Everything that escapes, aborts or trips a sanitizer is a bug.
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

// Whether `read` accepts its input.
template <typename Read>
bool Accepts(const Read& read) {
  try {
    read();
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace mixerbench::fuzz
