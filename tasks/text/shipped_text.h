// The texts that the program carries: see data/README.md for where they come from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mixerbench::tasks {

// The King James Bible, one sentence a line, an empty line between chapters.
std::string ShippedHaystack();

// Of data/<name>.txt.zst: "adj", "noun", "cwe_words"; sorted bytewise, lower case.
std::vector<std::string> ShippedWords(std::string_view name);

// The SentencePiece model `sqtok`, serialised.
std::string_view ShippedTokenizerModel();

}  // namespace mixerbench::tasks
