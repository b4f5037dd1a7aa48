// Reads the members of a JSON object that was written by some version of this program: members
// that it does not know are ignored, missing ones and wrong types are errors that name the place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fields.h"
#include "base/value.h"
#include "io/json.h"

namespace mixerbench::io {

class ObjectReader {
 public:
  // `where` is the JSON pointer of `value`, used in messages.
  ObjectReader(const Value& value, std::string where) : value_(value), where_(std::move(where)) {
    if (!value.is_object()) Fail("", "an object", value);
  }

  const Value& Member(std::string_view key) const {
    const Value* member = value_.Find(key);
    if (member == nullptr) {
      throw Error(ExitCode::kBadInput, Pointer(key) + ": missing");
    }
    return *member;
  }
  // False for a member that an older minor version did not write.
  bool Has(std::string_view key) const { return value_.Find(key) != nullptr; }
  bool IsNull(std::string_view key) const { return Member(key).is_null(); }
  ObjectReader Nested(std::string_view key) const { return {Member(key), Pointer(key)}; }

  bool Bool(std::string_view key) const {
    const Value& v = Member(key);
    if (!v.is_bool()) Fail(key, "true or false", v);
    return v.as_bool();
  }
  std::int64_t Int(std::string_view key) const {
    const Value& v = Member(key);
    if (!v.is_int()) Fail(key, "an integer", v);
    return v.as_int();
  }
  // A number of 0..2^64-1, which is a string above 2^53.
  std::uint64_t Seed(std::string_view key) const {
    const Value& v = Member(key);
    if (v.is_int() && v.as_int() >= 0) return static_cast<std::uint64_t>(v.as_int());
    std::uint64_t seed = 0;
    if (v.is_string()) {
      const std::string& text = v.as_string();
      const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), seed);
      if (code == std::errc() && end == text.data() + text.size()) return seed;
    }
    throw Error(ExitCode::kBadInput,
                Pointer(key) + ": expected an integer of 0..2^64-1, or one as a string");
  }
  double Number(std::string_view key) const {
    const Value& v = Member(key);
    if (!v.is_number()) Fail(key, "a number", v);
    return v.as_double();
  }
  // null stands for a value that was not finite.
  double NumberOrNan(std::string_view key) const {
    return OptionalNumber(key).value_or(std::numeric_limits<double>::quiet_NaN());
  }
  std::string String(std::string_view key) const {
    const Value& v = Member(key);
    if (!v.is_string()) Fail(key, "a string", v);
    return v.as_string();
  }
  // null stands for "nothing to say".
  std::string StringOrEmpty(std::string_view key) const {
    return IsNull(key) ? std::string() : String(key);
  }
  std::optional<double> OptionalNumber(std::string_view key) const {
    if (IsNull(key)) return std::nullopt;
    return Number(key);
  }
  std::optional<std::int64_t> OptionalInt(std::string_view key) const {
    if (IsNull(key)) return std::nullopt;
    return Int(key);
  }
  template <typename E>
  E Enum(std::string_view key) const {
    const std::string name = String(key);
    for (const auto& [value, text] : EnumNames<E>::kNames) {
      if (text == name) return value;
    }
    throw Error(ExitCode::kBadInput, Pointer(key) + ": unknown value '" + name + "'");
  }

  // One result of read(item, pointer) for every item of a list.
  template <typename Read>
  auto List(std::string_view key, Read read) const {
    const Value& v = Member(key);
    if (!v.is_array()) Fail(key, "a list", v);
    std::vector<std::decay_t<decltype(read(v, std::string()))>> items;
    for (const Value& item : v.as_array()) {
      items.push_back(read(item, Pointer(key) + "/" + std::to_string(items.size())));
    }
    return items;
  }

  std::string Pointer(std::string_view key) const { return where_ + "/" + PointerToken(key); }

 private:
  [[noreturn]] void Fail(std::string_view key, std::string_view expected, const Value& got) const {
    const std::string pointer = key.empty() ? where_ : Pointer(key);
    throw Error(ExitCode::kBadInput, (pointer.empty() ? "" : pointer + ": ") + "expected " +
                                         std::string(expected) + ", got " +
                                         std::string(got.type_name()));
  }

  const Value& value_;
  std::string where_;
};

}  // namespace mixerbench::io
