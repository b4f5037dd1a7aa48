// The guard in front of the SentencePiece library: what it accepts keeps the limits that it states.
// The library itself sees a file in a child process first (tasks/text/sentencepiece_tokenizer.h).
// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/sentencepiece_model.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mixerbench;  // NOLINT(google-build-using-namespace)
  fuzz::Try([&] {
    const auto model = tasks::ReadSentencePieceModel(fuzz::Bytes(data, size), "f");
    const auto num_pieces = static_cast<std::int64_t>(model.pieces.size());
    for (const std::int64_t id : {model.bos_id, model.eos_id, model.pad_id}) {
      fuzz::Demand(id >= 0 && id < num_pieces);
    }
    for (const auto& piece : model.pieces) {
      fuzz::Demand(!piece.text.empty() && piece.text.size() <= tasks::kMaxPieceBytes);
    }
  });
  return 0;
}
