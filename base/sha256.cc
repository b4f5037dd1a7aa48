// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <array>
#include <openssl/evp.h>

#include "base/check.h"

namespace mixerbench {

void Sha256::Deleter::operator()(evp_md_ctx_st* context) const noexcept {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  Require(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
          "SHA-256 is not available");
}

void Sha256::Update(std::span<const std::byte> bytes) {
  Require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "SHA-256 update");
}

std::string Sha256::Hex() {
  std::array<unsigned char, 32> digest{};
  unsigned int size = 0;
  Require(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1 && size == digest.size(),
          "SHA-256 final");
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string Sha256Hex(std::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return hash.Hex();
}

}  // namespace mixerbench
