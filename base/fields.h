// Binds an aggregate of options to names: one list per struct gives strict reading (unknown keys
// and wrong types are errors that name the place), writing with every default spelt out, and the
// text of `describe`.
//
//   struct MqarParams { std::int64_t vocab_size = 8192; ... };
//   inline const Fields<MqarParams>& MqarFields() {
//     static const auto fields = Fields<MqarParams>()
//         .Add("vocab_size", &MqarParams::vocab_size, "token ids are 0..vocab_size-1");
//     return fields;
//   }
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"
#include "base/value.h"

namespace mixerbench {

// Specialise for an enum that appears in options: a constexpr array of {value, "name"} pairs
// called `kNames`.
template <typename E>
struct EnumNames;

template <typename E>
requires std::is_enum_v<E> std::string_view NameOf(E value) {
  for (const auto& [candidate, name] : EnumNames<E>::kNames) {
    if (candidate == value) return name;
  }
  return "?";
}

// One option as `describe` shows it.
struct FieldInfo {
  std::string name;
  std::string type;  // "integer", "number", "boolean", "string", "one of a|b", "list of ..."
  Value default_value;
  std::string help;
};

namespace internal {

[[noreturn]] inline void WrongType(const std::string& where, std::string_view expected,
                                   const Value& got) {
  throw ConfigError(where,
                    "expected " + std::string(expected) + ", got " + std::string(got.type_name()));
}

template <typename T>
struct FieldType {  // enums
  static std::string Name() {
    std::string name = "one of ";
    bool first = true;
    for (const auto& [value, text] : EnumNames<T>::kNames) {
      name += (first ? "" : "|") + std::string(text);
      first = false;
    }
    return name;
  }
  static T Read(const Value& v, const std::string& where) {
    if (!v.is_string()) WrongType(where, Name(), v);
    std::vector<std::string> known;
    for (const auto& [value, text] : EnumNames<T>::kNames) {
      if (text == v.as_string()) return value;
      known.emplace_back(text);
    }
    throw ConfigError(where, UnknownName("value", v.as_string(), known));
  }
  static Value Write(T v) { return std::string(NameOf(v)); }
};

template <>
struct FieldType<bool> {
  static std::string Name() { return "boolean"; }
  static bool Read(const Value& v, const std::string& where) {
    if (!v.is_bool()) WrongType(where, "true or false", v);
    return v.as_bool();
  }
  static Value Write(bool v) { return v; }
};

template <>
struct FieldType<std::int64_t> {
  static std::string Name() { return "integer"; }
  static std::int64_t Read(const Value& v, const std::string& where) {
    if (!v.is_int()) WrongType(where, "an integer", v);
    return v.as_int();
  }
  static Value Write(std::int64_t v) { return v; }
};

template <>
struct FieldType<double> {
  static std::string Name() { return "number"; }
  static double Read(const Value& v, const std::string& where) {
    if (!v.is_number()) WrongType(where, "a number", v);
    return v.as_double();
  }
  // Whole numbers are written as integers, so that 0.1 and 1 round-trip to the same text.
  static Value Write(double v) {
    if (std::nearbyint(v) == v && std::abs(v) < 1e15) return static_cast<std::int64_t>(v);
    return v;
  }
};

template <>
struct FieldType<std::string> {
  static std::string Name() { return "string"; }
  static std::string Read(const Value& v, const std::string& where) {
    if (!v.is_string()) WrongType(where, "a string", v);
    return v.as_string();
  }
  static Value Write(const std::string& v) { return v; }
};

template <>
struct FieldType<Value> {  // read by its owner, e.g. a nested mixer
  static std::string Name() { return "object"; }
  static Value Read(const Value& v, const std::string&) { return v; }
  static Value Write(const Value& v) { return v; }
};

template <typename T>
struct FieldType<std::vector<T>> {
  static std::string Name() { return "list of " + FieldType<T>::Name(); }
  static std::vector<T> Read(const Value& v, const std::string& where) {
    if (!v.is_array()) WrongType(where, Name(), v);
    std::vector<T> items;
    for (const Value& item : v.as_array()) {
      items.push_back(FieldType<T>::Read(item, where + "/" + std::to_string(items.size())));
    }
    return items;
  }
  static Value Write(const std::vector<T>& v) {
    Array items;
    for (const T& item : v) items.push_back(FieldType<T>::Write(item));
    return items;
  }
};

}  // namespace internal

template <typename Struct>
class Fields {
 public:
  template <typename T>
  Fields& Add(std::string name, T Struct::*member, std::string help) {
    using Type = internal::FieldType<T>;
    fields_.push_back({std::move(name), Type::Name(), std::move(help),
                       [member](Struct& s, const Value& v, const std::string& where) {
                         s.*member = Type::Read(v, where);
                       },
                       [member](const Struct& s) { return Type::Write(s.*member); }});
    return *this;
  }

  // An option that joined after results were made, with a default that is what there was before:
  // Write leaves it out where it has that value, so that what was asked keeps its identity and old
  // results stay comparable.
  template <typename T>
  Fields& AddLater(std::string name, T Struct::*member, std::string help) {
    Add(std::move(name), member, std::move(help));
    fields_.back().joined_later = true;
    return *this;
  }

  // Overwrites the fields named in `value`, an object; the others keep what `target` has.
  // `where` is the JSON pointer of `value`, used in messages.
  void Read(const Value& value, const std::string& where, Struct& target) const {
    if (!value.is_object()) internal::WrongType(where, "an object", value);
    for (const auto& [key, item] : value.as_object())
      Find(key, where).read(target, item, where + "/" + key);
  }

  // Defaults overwritten by `value`.
  Struct Parse(const Value& value, const std::string& where) const {
    Struct target{};
    Read(value, where, target);
    return target;
  }

  // Every field, defaults included, but for those of AddLater.
  Value Write(const Struct& source) const {
    const Struct defaults{};
    Object object;
    for (const auto& field : fields_) {
      Value value = field.write(source);
      if (field.joined_later && value == field.write(defaults)) continue;
      object[field.name] = std::move(value);
    }
    return object;
  }

  std::vector<FieldInfo> Describe() const {
    std::vector<FieldInfo> infos;
    const Struct defaults{};
    for (const auto& f : fields_) infos.push_back({f.name, f.type, f.write(defaults), f.help});
    return infos;
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& field : fields_) names.push_back(field.name);
    return names;
  }

 private:
  struct Field {
    std::string name;
    std::string type;
    std::string help;
    std::function<void(Struct&, const Value&, const std::string&)> read;
    std::function<Value(const Struct&)> write;
    bool joined_later = false;
  };

  const Field& Find(const std::string& key, const std::string& where) const {
    for (const auto& field : fields_) {
      if (field.name == key) return field;
    }
    throw ConfigError(where + "/" + key, UnknownName("parameter", key, Names()));
  }

  std::vector<Field> fields_;
};

}  // namespace mixerbench
