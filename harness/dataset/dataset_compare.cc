// SPDX-License-Identifier: Apache-2.0
#include "harness/dataset/dataset_compare.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <optional>

#include "io/atomic_file.h"

namespace mixerbench::harness {
namespace {

// Files up to here are read to say which sample differs.
constexpr std::size_t kMaxReadBytes = std::size_t{1} << 30;

// Ends the making of a file at its first wrong byte.
struct Difference {
  std::uint64_t offset;
};

// Compares bytes with those of a file.
class Comparison {
 public:
  explicit Comparison(const std::filesystem::path& path) : file_(path) {}

  void Put(std::uint64_t offset, std::string_view expected) {
    end_ = std::max(end_, offset + expected.size());
    if (offset > file_.size()) throw Difference{file_.size()};
    actual_.resize(std::min<std::uint64_t>(expected.size(), file_.size() - offset));
    file_.ReadAt(offset, actual_);
    const auto [a, b] = std::mismatch(actual_.begin(), actual_.end(), expected.begin());
    if (b != expected.end()) {
      throw Difference{offset + static_cast<std::uint64_t>(a - actual_.begin())};
    }
  }

  void End() const {
    if (file_.size() > end_) throw Difference{end_};
  }

 private:
  io::InputFile file_;
  std::string actual_;
  std::uint64_t end_ = 0;
};

// The first value of `actual` that is not the expected one: "inputs[5] is 3 instead of 9".
std::optional<std::string> FirstDifference(std::string_view name,
                                           std::span<const std::int64_t> actual,
                                           std::span<const std::int32_t> expected) {
  for (std::size_t t = 0; t < expected.size(); ++t) {
    if (actual[t] != expected[t]) {
      return fmt::format("{}[{}] is {} instead of {}", name, t, actual[t], expected[t]);
    }
  }
  return std::nullopt;
}

// What is wrong with a file of tokens whose bytes are not the expected ones, in words of samples.
std::string ExplainTokens(const Dataset& dataset, const DatasetPart& part,
                          const io::DatasetFile& record, io::SampleFormat format,
                          const std::string& path, int num_threads) {
  const io::SampleTable table = io::ReadSamples(io::ReadFile(path, kMaxReadBytes), format, path);
  const std::int64_t seq_len = part.task->shape().seq_len;
  if (table.seq_len != seq_len || table.num_samples != record.count) {
    return fmt::format("holds {} samples of length {} instead of {} of length {}",
                       table.num_samples, table.seq_len, record.count, seq_len);
  }
  const auto length = static_cast<std::size_t>(seq_len);
  std::vector<std::int32_t> inputs(table.inputs.size());
  std::vector<std::int32_t> labels(inputs.size());
  tasks::GenerateOnCpu(*part.task,
                       {.key = dataset.Key(part),
                        .first = record.first,
                        .count = record.count,
                        .order = {},
                        .mode = dataset.labels},
                       inputs, labels, num_threads);
  for (std::int64_t row = 0; row < record.count; ++row) {
    const std::size_t offset = static_cast<std::size_t>(row) * length;
    auto found = FirstDifference("inputs", std::span(table.inputs).subspan(offset, length),
                                 std::span(inputs).subspan(offset, length));
    if (!found) {
      found = FirstDifference("labels", std::span(table.labels).subspan(offset, length),
                              std::span(labels).subspan(offset, length));
    }
    if (found) {
      return fmt::format("sample {}: {}", record.first + static_cast<std::uint64_t>(row), *found);
    }
  }
  return "holds the right samples, but was written by another program";
}

}  // namespace

std::vector<std::string> CompareFiles(const Dataset& dataset, const DatasetPart& part,
                                      const io::DatasetManifest& manifest,
                                      const io::DatasetPart& record, const std::string& folder,
                                      const FileMaker& make, int num_threads) {
  std::vector<std::string> faults;
  Sha256 stream;
  for (const io::DatasetFile& file : record.files) {
    const std::string path = (std::filesystem::path(folder) / file.name).string();
    const auto num_bytes = static_cast<std::int64_t>(io::InputFile(path).size());
    if (num_bytes != file.num_bytes) {
      faults.push_back(fmt::format("{}: {} bytes instead of {}", path, num_bytes, file.num_bytes));
    } else if (io::HashFile(path) != file.sha256) {
      faults.push_back(path + ": changed since it was written (its SHA-256 is another)");
    }
    try {
      Comparison comparison(path);
      make(
          part, file.first, file.count,
          [&](std::uint64_t offset, std::string_view bytes) { comparison.Put(offset, bytes); },
          stream);
      comparison.End();
    } catch (const Difference& difference) {
      std::string fault =
          fmt::format("{}: not what this program makes, from byte {} on", path, difference.offset);
      for (const auto& [format, name] : EnumNames<io::SampleFormat>::kNames) {
        if (name != manifest.format) continue;
        try {
          fault += "; " + ExplainTokens(dataset, part, file, format, path, num_threads);
        } catch (const Error& error) {
          fault += std::string("; ") + error.what();
        }
      }
      faults.push_back(fault);
    }
  }
  if (faults.empty() && stream.Hex() != record.sha256) {
    faults.push_back("the recorded hash of the samples is not theirs");
  }
  return faults;
}

}  // namespace mixerbench::harness
