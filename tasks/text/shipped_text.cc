// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/shipped_text.h"

#include <zstd.h>

#include "base/check.h"
#include "tasks/text/embedded.h"

namespace mixerbench::tasks {
namespace {

// The files are our own, so anything unexpected in them is a bug.
std::string Decompress(std::string_view compressed) {
  const unsigned long long size = ZSTD_getFrameContentSize(compressed.data(), compressed.size());
  Require(size != ZSTD_CONTENTSIZE_ERROR && size != ZSTD_CONTENTSIZE_UNKNOWN,
          "embedded data are one zstd frame that states its size");
  std::string text(size, '\0');
  const std::size_t written =
      ZSTD_decompress(text.data(), text.size(), compressed.data(), compressed.size());
  Require(ZSTD_isError(written) == 0 && written == size, "embedded data are whole");
  return text;
}

}  // namespace

std::string ShippedHaystack() { return Decompress(EmbeddedData("kjv.txt.zst")); }

std::vector<std::string> ShippedWords(std::string_view name) {
  const std::string text = Decompress(EmbeddedData(std::string(name) + ".txt.zst"));
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string_view ShippedTokenizerModel() { return EmbeddedData("sqtok.model"); }

}  // namespace mixerbench::tasks
