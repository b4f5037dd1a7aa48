// SPDX-License-Identifier: Apache-2.0
#include "io/dataset_manifest.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "base/error.h"
#include "io/json.h"
#include "io/object_reader.h"

namespace mixerbench::io {
namespace {

constexpr std::string_view kKind = "dataset";
constexpr std::string_view kHashPrefix = "sha256:";
constexpr std::size_t kHashDigits = 64;

// Counts up to here add up without overflow.
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int64_t>::max() / 4;

[[noreturn]] void Refuse(const std::string& where, const std::string& fault) {
  throw Error(ExitCode::kBadInput, where + ": " + fault);
}

std::string HashText(const std::string& digits) { return std::string(kHashPrefix) + digits; }

std::string ReadHash(const ObjectReader& reader, std::string_view key) {
  const std::string text = reader.String(key);
  const std::string_view digits =
      std::string_view(text).substr(std::min(kHashPrefix.size(), text.size()));
  if (!text.starts_with(kHashPrefix) || digits.size() != kHashDigits ||
      digits.find_first_not_of("0123456789abcdef") != digits.npos) {
    Refuse(reader.Pointer(key), "expected sha256: and 64 hexadecimal digits");
  }
  return std::string(digits);
}

std::uint64_t ReadUnsigned(const ObjectReader& reader, std::string_view key) {
  const std::string text = reader.String(key);
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end || text.empty() || (text.size() > 1 && text[0] == '0')) {
    Refuse(reader.Pointer(key), "expected a whole number of 64 bits as a string");
  }
  return value;
}

std::int64_t ReadCount(const ObjectReader& reader, std::string_view key, std::int64_t at_least) {
  const std::int64_t count = reader.Int(key);
  if (count < at_least || count > kMaxCount) {
    Refuse(reader.Pointer(key), "out of range (" + std::to_string(count) + ")");
  }
  return count;
}

Value Write(const DatasetFile& file) {
  return Object{{"name", file.name},
                {"first", std::to_string(file.first)},
                {"count", file.count},
                {"num_bytes", file.num_bytes},
                {"sha256", HashText(file.sha256)}};
}

DatasetFile ReadDatasetFile(const Value& value, const std::string& where) {
  const ObjectReader reader(value, where);
  DatasetFile file{.name = reader.String("name"),
                   .first = ReadUnsigned(reader, "first"),
                   .count = ReadCount(reader, "count", 1),
                   .num_bytes = ReadCount(reader, "num_bytes", 0),
                   .sha256 = ReadHash(reader, "sha256")};
  if (!IsSafeFileName(file.name)) {
    Refuse(reader.Pointer("name"), "is no plain file name");
  }
  return file;
}

Value Write(const DatasetPart& part) {
  Array files;
  for (const DatasetFile& file : part.files) files.push_back(Write(file));
  const Array warnings(part.warnings.begin(), part.warnings.end());
  return Object{{"name", part.name},
                {"params", part.params},
                {"canon", part.canon},
                {"first", std::to_string(part.first)},
                {"count", part.count},
                {"first_index", std::to_string(part.first_index)},
                {"seq_len", part.seq_len},
                {"vocab_size", part.vocab_size},
                {"sha256", HashText(part.sha256)},
                {"warnings", warnings},
                {"files", std::move(files)}};
}

DatasetPart ReadPart(const Value& value, const std::string& where) {
  const ObjectReader reader(value, where);
  DatasetPart part{.name = reader.String("name"),
                   .params = reader.Member("params"),
                   .canon = reader.String("canon"),
                   .first = ReadUnsigned(reader, "first"),
                   .count = ReadCount(reader, "count", 1),
                   .seq_len = ReadCount(reader, "seq_len", 0),
                   .vocab_size = ReadCount(reader, "vocab_size", 0),
                   .sha256 = ReadHash(reader, "sha256"),
                   .files = reader.List("files", ReadDatasetFile)};
  // Both since 1.1; before it every part began anew.
  part.first_index = reader.Has("first_index") ? ReadUnsigned(reader, "first_index") : part.first;
  if (reader.Has("warnings")) {
    part.warnings = reader.List("warnings", [](const Value& warning, const std::string& place) {
      if (!warning.is_string()) Refuse(place, "is no string");
      return warning.as_string();
    });
  }
  if (!part.params.is_object()) Refuse(reader.Pointer("params"), "is not an object");
  std::uint64_t next = part.first;
  std::int64_t rest = part.count;
  for (const DatasetFile& file : part.files) {
    if (file.first != next || file.count > rest) {
      Refuse(reader.Pointer("files"), "the files leave a gap, overlap, or hold too many samples");
    }
    next += static_cast<std::uint64_t>(file.count);
    rest -= file.count;
  }
  if (rest != 0) Refuse(reader.Pointer("files"), "the files hold fewer samples than the part");
  return part;
}

DatasetManifest Read(const Value& value) {
  const ObjectReader reader(value, "");
  if (const std::string kind = reader.String("kind"); kind != kKind) {
    Refuse("/kind", "expected \"dataset\", got \"" + kind.substr(0, 40) + "\"");
  }
  const std::string version = reader.String("schema_version");
  if (!version.starts_with("1.")) {
    Refuse("/schema_version", "this program reads version 1, not " + version.substr(0, 40));
  }
  DatasetManifest manifest{.generator = reader.Member("generator"),
                           .task = reader.String("task"),
                           .task_version = reader.Has("task_version")
                                               ? ReadCount(reader, "task_version", 1)
                                               : 1,  // as before 1.1
                           .task_code = ReadHash(reader, "task_code"),
                           .preset = reader.StringOrEmpty("preset"),
                           .seed = ReadUnsigned(reader, "seed"),
                           .split = ReadUnsigned(reader, "split"),
                           .labels = reader.StringOrEmpty("labels"),
                           .format = reader.String("format"),
                           .dtype = reader.String("dtype"),
                           .parts = reader.List("parts", ReadPart)};
  if (manifest.parts.empty()) Refuse("/parts", "is empty");
  std::set<std::string_view> names;
  for (const DatasetPart& part : manifest.parts) {
    for (const DatasetFile& file : part.files) {
      if (!names.insert(file.name).second) Refuse("/parts", "a file is listed twice");
    }
  }
  return manifest;
}

}  // namespace

std::string DumpManifest(const DatasetManifest& manifest) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Value() : Value(text); };
  Array parts;
  for (const DatasetPart& part : manifest.parts) parts.push_back(Write(part));
  return DumpJson(Object{{"kind", std::string(kKind)},
                         {"schema_version", std::string(kManifestVersion)},
                         {"generator", manifest.generator},
                         {"task", manifest.task},
                         {"task_version", manifest.task_version},
                         {"task_code", HashText(manifest.task_code)},
                         {"preset", or_null(manifest.preset)},
                         {"seed", std::to_string(manifest.seed)},
                         {"split", std::to_string(manifest.split)},
                         {"labels", or_null(manifest.labels)},
                         {"format", manifest.format},
                         {"dtype", manifest.dtype},
                         {"parts", std::move(parts)}},
                  2);
}

DatasetManifest ParseManifest(std::string_view text, const std::string& path) {
  try {
    return Read(ParseJson(text));
  } catch (const Error& error) {
    throw Error(ExitCode::kBadInput, path + ": " + error.what());
  }
}

bool IsSafeFileName(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.size() <= 128 && name.front() != '.' &&
         name.find_first_not_of(kAllowed) == name.npos;
}

}  // namespace mixerbench::io
