// A configuration value: the JSON data model without JSON, so that tasks and models can be
// configured without knowing a file format. Reading and writing text is in io/json.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace mixerbench {

class Value;
using Array = std::vector<Value>;
using Object = std::map<std::string, Value, std::less<>>;

class Value {
 public:
  Value() = default;
  Value(std::nullptr_t) {}                                                       // NOLINT
  Value(bool v) : data_(v) {}                                                    // NOLINT
  template <typename T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  Value(T v) : data_(static_cast<std::int64_t>(v)) {}                            // NOLINT
  Value(double v) : data_(v) {}                                                  // NOLINT
  Value(std::string v) : data_(std::move(v)) {}                                  // NOLINT
  Value(std::string_view v) : data_(std::string(v)) {}                           // NOLINT
  Value(const char* v) : data_(std::string(v)) {}                                // NOLINT
  Value(Array v) : data_(std::move(v)) {}                                        // NOLINT
  Value(Object v) : data_(std::move(v)) {}                                       // NOLINT

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(data_); }
  bool is_double() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(data_); }
  bool is_array() const { return std::holds_alternative<Array>(data_); }
  bool is_object() const { return std::holds_alternative<Object>(data_); }

  // Each throws std::bad_variant_access when the value holds something else.
  bool as_bool() const { return std::get<bool>(data_); }
  std::int64_t as_int() const { return std::get<std::int64_t>(data_); }
  double as_double() const {
    return is_int() ? static_cast<double>(as_int()) : std::get<double>(data_);
  }
  const std::string& as_string() const { return std::get<std::string>(data_); }
  const Array& as_array() const { return std::get<Array>(data_); }
  const Object& as_object() const { return std::get<Object>(data_); }
  Array& as_array() { return std::get<Array>(data_); }
  Object& as_object() { return std::get<Object>(data_); }

  // The member of an object, or nullptr when this is no object or has no such key.
  const Value* Find(std::string_view key) const {
    if (!is_object()) return nullptr;
    const auto found = as_object().find(key);
    return found == as_object().end() ? nullptr : &found->second;
  }

  // "null", "boolean", "integer", "number", "string", "array" or "object".
  std::string_view type_name() const {
    static constexpr std::string_view kNames[] = {"null",   "boolean", "integer", "number",
                                                  "string", "array",   "object"};
    return kNames[data_.index()];
  }

  // Spelt out: nvcc instantiates a defaulted one before the class is complete.
  friend bool operator==(const Value& a, const Value& b) { return a.data_ == b.data_; }

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> data_;
};

}  // namespace mixerbench
