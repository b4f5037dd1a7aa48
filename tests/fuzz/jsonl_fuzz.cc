// JSON lines: samples, references and predictions, and the scores of what they say.
// SPDX-License-Identifier: Apache-2.0
#include "harness/dataset/response_scores.h"
#include "io/sample_file.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mixerbench;  // NOLINT(google-build-using-namespace)
  const std::string_view text = fuzz::Bytes(data, size);
  fuzz::Try([&] {
    const auto table = io::ReadSamples(text, io::SampleFormat::kJsonl, "f");
    fuzz::Demand(std::ssize(table.inputs) == table.num_samples * table.seq_len);
    fuzz::Demand(table.labels.size() == table.inputs.size());
  });
  // The same lines as references and as predictions, so that every line has both.
  fuzz::Try([&] {
    const auto rows = harness::ScoreRun(harness::PairUp(
        harness::ReadReferences(text, "f"), harness::ReadPredictions(text, "f"), false, "f"));
    fuzz::Demand(!rows.empty());
    for (const auto& row : rows) fuzz::Demand(row.scale == 0 || row.score <= row.scale);
  });
  return 0;
}
