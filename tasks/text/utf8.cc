// SPDX-License-Identifier: Apache-2.0
#include "tasks/text/utf8.h"

#include <cstddef>
#include <cstdint>

namespace mixerbench::tasks {
namespace {

// Bytes of the character that `lead` begins; 0 for none.
std::size_t CharacterSize(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >> 5 == 0x6) return 2;
  if (lead >> 4 == 0xE) return 3;
  return lead >> 3 == 0x1E ? 4 : 0;
}

// Whether a character of `size` bytes may have this code point: the shortest form, no surrogate.
bool IsCharacter(std::uint32_t code, std::size_t size) {
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  return code >= kSmallest[size] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
}

}  // namespace

bool IsUtf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t size = CharacterSize(lead);
    if (size == 0 || size > text.size() - i) return false;
    std::uint32_t code = size == 1 ? lead : lead & (0x7Fu >> size);
    for (std::size_t k = 1; k < size; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if ((byte & 0xC0) != 0x80) return false;
      code = code << 6 | (byte & 0x3Fu);
    }
    if (!IsCharacter(code, size)) return false;
    i += size;
  }
  return true;
}

}  // namespace mixerbench::tasks
