// Binds the keys of a JSON object to the members of a struct once, for the writer, the reader and
// the tests that hold schema and page against them.
//
//   template <> struct Bound<Guess> {
//     static constexpr std::array kFields = {Field<&Guess::name>("name"),
//                                            Field<&Guess::accuracy>("accuracy")};
//   };
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fields.h"
#include "base/value.h"
#include "io/object_reader.h"

namespace mixerbench::reports {

// Whether null stands for a member without a value: an empty text, a number that is not finite, the
// first enumerator, a count of 0. std::optional is null anyway.
enum class Null { kNever, kAllowed };

// The fields of a struct; specialised for each that is an object of its own.
template <typename S>
struct Bound;

template <typename S>
concept IsBound = requires {
  Bound<S>::kFields;
};

template <typename S>
struct BoundField {
  std::string_view key;
  int since;  // minor version of schema 1 that brought it: documents before it lack the key
  void (*write)(const S&, Object&, std::string_view key);
  void (*read)(const io::ObjectReader&, std::string_view key, S&);
};

template <typename Fields, typename S>
Object WriteFields(const Fields& fields, const S& from) {
  Object object;
  for (const auto& field : fields) field.write(from, object, field.key);
  return object;
}

// Errors: those of ObjectReader. A key that the document's version need not have keeps its default.
template <typename Fields, typename S>
void ReadFields(const Fields& fields, const io::ObjectReader& reader, S& into) {
  for (const auto& field : fields) {
    if (field.since == 0 || reader.Has(field.key)) field.read(reader, field.key, into);
  }
}

namespace internal {

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;

template <Null kNull, typename T>
Value Write(const T& v) {
  if constexpr (IsBound<T>) {
    return WriteFields(Bound<T>::kFields, v);
  } else if constexpr (kIsOptional<T>) {
    constexpr bool kIsNumber = std::is_same_v<typename T::value_type, double>;  // may be a NaN
    return v ? Write < kIsNumber ? Null::kAllowed : kNull > (*v) : Value();
  } else if constexpr (kIsVector<T>) {
    Array array;
    for (const auto& item : v) array.push_back(Write<kNull>(item));
    return array;
  } else if constexpr (std::is_same_v<T, double>) {
    return kNull == Null::kAllowed && !std::isfinite(v) ? Value() : Value(v);
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, Value> ||
                       std::is_same_v<T, Object>) {
    return v;
  } else {  // texts, counts, enumerators
    if (kNull == Null::kAllowed && v == T{}) return {};
    if constexpr (std::is_enum_v<T>) {
      return std::string(NameOf(v));
    } else {
      return v;
    }
  }
}

template <Null kNull, typename T>
T Read(const io::ObjectReader& reader, std::string_view key);

// An item of a list, whose pointer ends in its index.
template <Null kNull, typename T>
T ReadItem(const Value& value, const std::string& where) {
  if constexpr (IsBound<T>) {
    T item;
    ReadFields(Bound<T>::kFields, io::ObjectReader(value, where), item);
    return item;
  } else {
    const std::size_t slash = where.rfind('/');
    const Value list = Object{{where.substr(slash + 1), value}};
    return Read<kNull, T>(io::ObjectReader(list, where.substr(0, slash)), where.substr(slash + 1));
  }
}

template <Null kNull, typename T>
T Read(const io::ObjectReader& reader, std::string_view key) {
  if constexpr (kIsOptional<T>) {
    if (reader.IsNull(key)) return std::nullopt;
    return Read<Null::kNever, typename T::value_type>(reader, key);
  } else if constexpr (kIsVector<T>) {
    return reader.List(key, ReadItem<kNull, typename T::value_type>);
  } else if constexpr (IsBound<T>) {
    return ReadItem<kNull, T>(reader.Member(key), reader.Pointer(key));
  } else if constexpr (std::is_same_v<T, Value>) {
    return reader.Member(key);
  } else if constexpr (std::is_same_v<T, Object>) {
    reader.Nested(key);  // or an error
    return reader.Member(key).as_object();
  } else if constexpr (std::is_same_v<T, double>) {
    return kNull == Null::kAllowed ? reader.NumberOrNan(key) : reader.Number(key);
  } else if constexpr (std::is_same_v<T, bool>) {
    return reader.Bool(key);
  } else {
    if (kNull == Null::kAllowed && reader.IsNull(key)) return {};
    if constexpr (std::is_enum_v<T>) {
      return reader.Enum<T>(key);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return reader.String(key);
    } else {
      static_assert(std::is_same_v<T, std::int64_t>);
      return reader.Int(key);
    }
  }
}

template <typename M>
struct MemberPointer;
template <typename S, typename T>
struct MemberPointer<T S::*> {
  using Struct = S;
  using Type = T;
};

}  // namespace internal

template <auto kMember, Null kNull = Null::kNever>
constexpr auto Field(std::string_view key, int since = 0) {
  using S = typename internal::MemberPointer<decltype(kMember)>::Struct;
  using T = typename internal::MemberPointer<decltype(kMember)>::Type;
  return BoundField<S>{
      .key = key,
      .since = since,
      .write =
          [](const S& from, Object& object, std::string_view name) {
            object[std::string(name)] = internal::Write<kNull>(from.*kMember);
          },
      .read = [](const io::ObjectReader& reader, std::string_view name,
                 S& into) { into.*kMember = internal::Read<kNull, T>(reader, name); }};
}

}  // namespace mixerbench::reports
