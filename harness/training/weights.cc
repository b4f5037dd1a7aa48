// SPDX-License-Identifier: Apache-2.0
#include "harness/training/weights.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "harness/device/tensor_io.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/result/result_json.h"

namespace mixerbench::harness {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{16} << 30;
constexpr std::size_t kNumIdDigits = 16;
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kFormat = "mixerbench-weights-2";
// With the training in the metadata, which have no room for thousands of epochs.
constexpr std::string_view kEarlierFormat = "mixerbench-weights-1";
constexpr const char* kTraining = "training.json";  // its text, as bytes

std::int64_t CountBytes(const kernels::NamedTensors& tensors) {
  std::int64_t num_bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    num_bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return num_bytes;
}

// As a tensor of bytes, filled up so that what follows it in the file stays aligned.
io::StoredTensor TensorOf(std::string text) {
  constexpr std::size_t kAlignment = 8;
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return {io::ElementType::kU8, {static_cast<std::int64_t>(text.size())}, std::move(text)};
}

// The text of the training, taken out of a file of either format: parameters are left.
std::string ExtractTraining(io::TensorFile& file) {
  auto stored = file.tensors.extract(kTraining);
  return stored.empty() ? file.metadata["training"] : std::move(stored.mapped().bytes);
}

}  // namespace

std::string WeightsFolder::FileName(const std::string& bytes) const {
  return training_id_.substr(0, kNumIdDigits) + "-" + Sha256Hex(bytes) + std::string(kSuffix);
}

std::vector<std::filesystem::path> WeightsFolder::List() const {
  const std::string prefix = training_id_.substr(0, kNumIdDigits) + "-";
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(kSuffix)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<reports::KeptWeights> WeightsFolder::Save(const FinalWeights& weights,
                                                        std::int64_t max_bytes) const {
  if (CountBytes(weights.parameters) > max_bytes) return std::nullopt;
  io::TensorFile file = ToTensorFile(weights.parameters);
  file.tensors[kTraining] = TensorOf(io::DumpJson(reports::CellToValue(weights.training)));
  file.metadata = {{"format", std::string(kFormat)}, {"training_id", training_id_}};
  const std::string bytes = io::WriteSafetensors(file);
  if (static_cast<std::int64_t>(bytes.size()) > max_bytes) return std::nullopt;
  const auto path = folder_ / FileName(bytes);
  const auto earlier = List();
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw Error(ExitCode::kOutput, folder_.string() + ": " + error.message());
  io::WriteFileAtomically(path, bytes);
  for (const auto& old : earlier) {
    if (old != path) std::filesystem::remove(old, error);
  }
  return reports::KeptWeights{.sha256 = "sha256:" + Sha256Hex(bytes),
                              .num_bytes = static_cast<std::int64_t>(bytes.size()),
                              .reused = false};
}

std::optional<FinalWeights> WeightsFolder::Load(std::vector<std::string>& problems) const {
  for (const auto& path : List()) {
    try {
      const std::string bytes = io::ReadFile(path, kMaxFileBytes);
      if (FileName(bytes) != path.filename().string()) {
        throw Error(ExitCode::kBadInput, path.string() + ": damaged, its name does not match");
      }
      io::TensorFile file = io::ReadSafetensors(bytes, path.string());
      const std::string& format = file.metadata["format"];
      if ((format != kFormat && format != kEarlierFormat) ||
          file.metadata["training_id"] != training_id_) {
        throw Error(ExitCode::kBadInput, path.string() + ": belongs to another training");
      }
      const std::string training = ExtractTraining(file);
      return FinalWeights{.training = reports::ParseCell(training, path.string()),
                          .parameters = FromTensorFile(file),
                          .file = {.sha256 = "sha256:" + Sha256Hex(bytes),
                                   .num_bytes = static_cast<std::int64_t>(bytes.size()),
                                   .reused = true}};
    } catch (const std::exception& error) {
      problems.emplace_back(error.what());
    }
  }
  return std::nullopt;
}

void WeightsFolder::RemoveAbove(std::int64_t max_bytes) const {
  std::error_code ignored;  // what cannot be removed is replaced by the next that is saved
  for (const auto& path : List()) {
    const auto size = std::filesystem::file_size(path, ignored);
    if (!ignored && static_cast<std::int64_t>(size) > max_bytes) {
      std::filesystem::remove(path, ignored);
    }
  }
}

void WeightsFolder::CopyTo(const std::filesystem::path& folder) const {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const auto& path : List()) {
    if (!error) std::filesystem::copy_file(path, folder / path.filename(), error);
  }
  if (error) throw Error(ExitCode::kOutput, folder.string() + ": " + error.message());
}

std::optional<io::TensorFile> ReadKeptWeights(const std::filesystem::path& folder,
                                              std::string_view sha256) {
  const std::string end = std::string(sha256) + std::string(kSuffix);
  std::error_code error;  // of a folder that is not there: no entries
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().ends_with(end)) continue;
    const std::string bytes = io::ReadFile(entry.path(), kMaxFileBytes);
    if (Sha256Hex(bytes) != sha256) return std::nullopt;
    io::TensorFile file = io::ReadSafetensors(bytes, entry.path().string());
    ExtractTraining(file);
    return file;
  }
  return std::nullopt;
}

void TakeTraining(const reports::CellResult& training, reports::CellResult& result) {
  result.step = training.step;
  result.stopped_early = training.stopped_early;
  result.learning_curve = training.learning_curve;
  result.plans = training.plans;
  result.steps_to_threshold = training.steps_to_threshold;
  result.wall_s = training.wall_s;
  result.energy_j = training.energy_j;
  result.tokens_seen = training.tokens_seen;
  result.phases = training.phases;
}

}  // namespace mixerbench::harness
