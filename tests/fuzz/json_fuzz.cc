// JSON text: what is accepted is written and read back as the same value.
// SPDX-License-Identifier: Apache-2.0
#include "io/json.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mixerbench;  // NOLINT(google-build-using-namespace)
  fuzz::Try([&] {
    const Value value = io::ParseJson(fuzz::Bytes(data, size));
    fuzz::Demand(io::ParseJson(io::DumpJson(value)) == value);
    fuzz::Demand(io::ParseJson(io::DumpJson(value, 2)) == value);
  });
  return 0;
}
