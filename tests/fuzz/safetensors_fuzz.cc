// safetensors files, alone and as data sets.
// SPDX-License-Identifier: Apache-2.0
#include "io/sample_file.h"
#include "io/tensor_file.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mixerbench;  // NOLINT(google-build-using-namespace)
  const std::string_view bytes = fuzz::Bytes(data, size);
  fuzz::Try([&] {
    const io::TensorFile file = io::ReadSafetensors(bytes, "f");
    fuzz::Demand(io::ReadSafetensors(io::WriteSafetensors(file), "f") == file);
  });
  fuzz::Try([&] {
    const auto table = io::ReadSamples(bytes, io::SampleFormat::kSafetensors, "f");
    fuzz::Demand(std::ssize(table.inputs) == table.num_samples * table.seq_len);
    fuzz::Demand(table.labels.size() == table.inputs.size());
  });
  return 0;
}
