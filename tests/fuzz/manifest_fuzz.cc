// Manifests of data sets: what is accepted names plain files and survives writing and reading.
// SPDX-License-Identifier: Apache-2.0
#include "io/dataset_manifest.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mixerbench;  // NOLINT(google-build-using-namespace)
  fuzz::Try([&] {
    const auto manifest = io::ParseManifest(fuzz::Bytes(data, size), "m");
    fuzz::Demand(io::ParseManifest(io::DumpManifest(manifest), "m") == manifest);
    for (const auto& part : manifest.parts) {
      for (const auto& file : part.files) {
        fuzz::Demand(file.name.find('/') == file.name.npos && file.name.front() != '.');
      }
    }
  });
  return 0;
}
