// SHA-256 of bytes, for identities that `sha256sum` can verify.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace mixerbench {

class Sha256 {
 public:
  Sha256();
  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text) { Update(std::as_bytes(std::span(text))); }
  // 64 lower-case hex digits. The object may not be updated afterwards.
  std::string Hex();

 private:
  struct Deleter {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Deleter> context_;
};

std::string Sha256Hex(std::string_view text);

}  // namespace mixerbench
