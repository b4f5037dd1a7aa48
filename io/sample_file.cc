// SPDX-License-Identifier: Apache-2.0
#include "io/sample_file.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "base/value.h"
#include "io/json.h"

namespace mixerbench::io {
namespace {

// A line may hold a sample of 2^24 tokens, inputs and labels.
constexpr JsonLimits kLineLimits = {
    .max_bytes = std::size_t{1} << 30, .max_depth = 16, .max_nodes = std::size_t{1} << 26};

void AppendList(std::string_view key, std::span<const std::int32_t> values, std::string& text) {
  text += key;
  // Written in place: this loop is what writing JSON costs.
  constexpr std::size_t kMaxDigits = 12;  // "-2147483648,"
  const std::size_t begin = text.size();
  text.resize(begin + values.size() * kMaxDigits);
  char* out = text.data() + begin;
  for (const std::int32_t value : values) {
    out = std::to_chars(out, out + kMaxDigits, value).ptr;
    *out++ = ',';
  }
  text.resize(static_cast<std::size_t>(out - text.data()) - (values.empty() ? 0 : 1));
}

std::string Lines(const SampleRows& rows, std::int64_t seq_len, std::int64_t begin,
                  std::int64_t end) {
  const auto length = static_cast<std::size_t>(seq_len);
  std::string text;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::size_t offset = static_cast<std::size_t>(row) * length;
    AppendList("{\"inputs\":[", rows.inputs.subspan(offset, length), text);
    AppendList("],\"labels\":[", rows.labels.subspan(offset, length), text);
    text += "],\"meta\":{\"index\":";
    text += std::to_string(rows.first_index + static_cast<std::uint64_t>(row));
    if (rows.append_meta) rows.append_meta(row, text);
    text += "}}\n";
  }
  return text;
}

[[noreturn]] void Refuse(const std::string& path, const std::string& fault) {
  throw Error(ExitCode::kBadInput, path + ": " + fault);
}

std::vector<std::int64_t> Integers(const StoredTensor& tensor, const std::string& path) {
  std::vector<std::int64_t> values;
  const auto widen = [&]<typename T>(T) {
    std::vector<T> stored(tensor.bytes.size() / sizeof(T));
    if (!stored.empty()) std::memcpy(stored.data(), tensor.bytes.data(), tensor.bytes.size());
    values.assign(stored.begin(), stored.end());
  };
  if (tensor.dtype == ElementType::kI32) {
    widen(std::int32_t{});
  } else if (tensor.dtype == ElementType::kI64) {
    widen(std::int64_t{});
  } else {
    Refuse(path, "samples are int32 or int64");
  }
  return values;
}

SampleTable FromNpy(std::string_view bytes, const std::string& path) {
  const StoredTensor array = ReadNpy(bytes, path);
  if (array.shape.size() != 3 || array.shape[0] != 2) {
    Refuse(path, "expected one array [2, num_samples, seq_len]: inputs, then labels");
  }
  SampleTable table{.num_samples = array.shape[1], .seq_len = array.shape[2]};
  const std::vector<std::int64_t> values = Integers(array, path);
  const auto middle = values.begin() + std::ssize(values) / 2;
  table.inputs.assign(values.begin(), middle);
  table.labels.assign(middle, values.end());
  return table;
}

SampleTable FromSafetensors(std::string_view bytes, const std::string& path) {
  const TensorFile file = ReadSafetensors(bytes, path);
  const auto inputs = file.tensors.find("inputs");
  const auto labels = file.tensors.find("labels");
  if (inputs == file.tensors.end() || labels == file.tensors.end() ||
      inputs->second.shape.size() != 2 || inputs->second.shape != labels->second.shape) {
    Refuse(path, "expected tensors inputs and labels, each [num_samples, seq_len]");
  }
  return {.num_samples = inputs->second.shape[0],
          .seq_len = inputs->second.shape[1],
          .inputs = Integers(inputs->second, path),
          .labels = Integers(labels->second, path)};
}

void AppendRow(const Value& row, std::string_view key, const std::string& where,
               std::vector<std::int64_t>& values) {
  const Value* list = row.Find(key);
  if (list == nullptr || !list->is_array()) Refuse(where, std::string(key) + " is no list");
  for (const Value& item : list->as_array()) {
    if (!item.is_int()) Refuse(where, std::string(key) + " holds something that is no integer");
    values.push_back(item.as_int());
  }
}

SampleTable FromLines(std::string_view text, const std::string& path) {
  SampleTable table;
  while (!text.empty()) {
    const std::string where = path + ": line " + std::to_string(table.num_samples + 1);
    const std::size_t end = text.find('\n');
    if (end == text.npos) Refuse(where, "is not ended: the file is cut");
    Value row;
    try {
      row = ParseJson(text.substr(0, end), kLineLimits);
    } catch (const ConfigError& error) {
      Refuse(where, error.what());
    }
    text.remove_prefix(end + 1);
    AppendRow(row, "inputs", where, table.inputs);
    AppendRow(row, "labels", where, table.labels);
    ++table.num_samples;
    if (table.num_samples == 1) table.seq_len = std::ssize(table.inputs);
    if (std::ssize(table.inputs) != table.num_samples * table.seq_len ||
        table.labels.size() != table.inputs.size()) {
      Refuse(where, "inputs and labels are not as long as those of the first line");
    }
  }
  return table;
}

}  // namespace

SampleEncoder::SampleEncoder(SampleFormat format, ElementType dtype, std::int64_t num_samples,
                             std::int64_t seq_len)
    : format_(format), dtype_(dtype), num_samples_(num_samples), seq_len_(seq_len) {
  Require(dtype == ElementType::kI32 || dtype == ElementType::kI64, "samples are integers");
  if (format == SampleFormat::kNpy) {
    header_ = NpyHeader(dtype, std::array<std::int64_t, 3>{2, num_samples, seq_len});
  } else if (format == SampleFormat::kSafetensors) {
    const TensorLayout layout{dtype, {num_samples, seq_len}};
    header_ = SafetensorsHeader({{"inputs", layout}, {"labels", layout}});
  }
}

void SampleEncoder::Begin(const PutBytes& put) {
  if (!header_.empty()) put(0, header_);
}

void SampleEncoder::Add(const SampleRows& rows, const PutBytes& put, int num_threads) {
  const std::int64_t num_rows = std::ssize(rows.inputs) / seq_len_;
  Require(std::ssize(rows.inputs) == num_rows * seq_len_ &&
              rows.labels.size() == rows.inputs.size() && num_added_ + num_rows <= num_samples_,
          "rows hold [n, seq_len], and no more than the file was announced with");
  if (format_ == SampleFormat::kJsonl) {
    AddLines(rows, put, num_threads);
  } else {
    // Both formats hold all inputs and then all labels.
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(seq_len_) * ElementSize(dtype_);
    const std::uint64_t inputs =
        header_.size() + static_cast<std::uint64_t>(num_added_) * row_bytes;
    AddTensor(rows.inputs, inputs, put);
    AddTensor(rows.labels, inputs + static_cast<std::uint64_t>(num_samples_) * row_bytes, put);
  }
  num_added_ += num_rows;
}

void SampleEncoder::AddLines(const SampleRows& rows, const PutBytes& put, int num_threads) {
  const std::int64_t num_rows = std::ssize(rows.inputs) / seq_len_;
  const auto num_parts = std::max<std::int64_t>(1, std::min<std::int64_t>(num_threads, num_rows));
  std::vector<std::string> texts(static_cast<std::size_t>(num_parts));
  {
    std::vector<std::jthread> threads;
    const auto encode = [&](std::int64_t part) {
      texts[static_cast<std::size_t>(part)] =
          Lines(rows, seq_len_, num_rows * part / num_parts, num_rows * (part + 1) / num_parts);
    };
    for (std::int64_t part = 1; part < num_parts; ++part) threads.emplace_back(encode, part);
    encode(0);
  }
  for (const std::string& text : texts) {
    put(num_bytes_, text);
    num_bytes_ += text.size();
  }
}

void SampleEncoder::AddTensor(std::span<const std::int32_t> values, std::uint64_t begin,
                              const PutBytes& put) {
  if (dtype_ == ElementType::kI32) {
    put(begin, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
    return;
  }
  const std::vector<std::int64_t> wide(values.begin(), values.end());
  put(begin, {reinterpret_cast<const char*>(wide.data()), wide.size() * sizeof(std::int64_t)});
}

SampleTable ReadSamples(std::string_view bytes, SampleFormat format, const std::string& path) {
  switch (format) {
    case SampleFormat::kJsonl:
      return FromLines(bytes, path);
    case SampleFormat::kNpy:
      return FromNpy(bytes, path);
    case SampleFormat::kSafetensors:
      return FromSafetensors(bytes, path);
  }
  Require(false, "a format without a reader");
  return {};
}

}  // namespace mixerbench::io
