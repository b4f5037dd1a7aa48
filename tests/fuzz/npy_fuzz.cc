// .npy files, alone and as data sets.
// SPDX-License-Identifier: Apache-2.0
#include "io/sample_file.h"
#include "io/tensor_file.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mixerbench;  // NOLINT(google-build-using-namespace)
  const std::string_view bytes = fuzz::Bytes(data, size);
  fuzz::Try([&] {
    const io::StoredTensor array = io::ReadNpy(bytes, "f");
    const std::string again = io::NpyHeader(array.dtype, array.shape) + array.bytes;
    fuzz::Demand(io::ReadNpy(again, "f") == array);
  });
  fuzz::Try([&] {
    const auto table = io::ReadSamples(bytes, io::SampleFormat::kNpy, "f");
    fuzz::Demand(std::ssize(table.inputs) == table.num_samples * table.seq_len);
    fuzz::Demand(table.labels.size() == table.inputs.size());
  });
  return 0;
}
