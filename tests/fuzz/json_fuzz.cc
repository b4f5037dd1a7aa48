// JSON text: what is accepted is written and read back as the same value.
// SPDX-License-Identifier: Apache-2.0
#include "reports/json.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mixerbench;  // NOLINT(google-build-using-namespace)
  fuzz::Try([&] {
    const Value value = reports::ParseJson(fuzz::Bytes(data, size));
    fuzz::Demand(reports::ParseJson(reports::DumpJson(value)) == value);
    fuzz::Demand(reports::ParseJson(reports::DumpJson(value, 2)) == value);
  });
  return 0;
}
