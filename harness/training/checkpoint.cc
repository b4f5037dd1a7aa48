// SPDX-License-Identifier: Apache-2.0
#include "harness/training/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "harness/device/tensor_io.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/tensor_file.h"

namespace mixerbench::harness {
namespace {

constexpr std::size_t kMaxCheckpointBytes = std::size_t{16} << 30;
constexpr std::size_t kNumKept = 2;
constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::size_t kNumDigits = 12;
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kFormat = "mixerbench-checkpoint-1";
constexpr const char* kProgress = "progress.json";  // its text, as bytes

std::string FileName(std::int64_t number, const std::string& bytes) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%012lld", static_cast<long long>(number));
  return std::string(kPrefix) + digits + "-" + Sha256Hex(bytes) + std::string(kSuffix);
}

// 0 for a name that has none.
std::int64_t NumberIn(const std::filesystem::path& path) {
  const std::string digits = path.filename().string().substr(kPrefix.size(), kNumDigits);
  const bool is_number =
      digits.size() == kNumDigits && digits.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::stoll(digits) : 0;
}

// Checkpoints of a folder, newest first: the number leads in the name, with leading zeros.
std::vector<std::filesystem::path> List(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) found.push_back(entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

void Remove(const std::filesystem::path& path) {
  std::error_code ignored;  // what cannot be removed is found and replaced by a newer one later
  std::filesystem::remove(path, ignored);
}

}  // namespace

void CheckpointFolder::Save(const Checkpoint& checkpoint) const {
  io::TensorFile file = ToTensorFile(checkpoint.tensors);
  const std::string text = io::DumpJson(checkpoint.progress);
  file.tensors[kProgress] = {io::ElementType::kU8, {static_cast<std::int64_t>(text.size())}, text};
  file.metadata = {{"format", std::string(kFormat)},
                   {"run_id", run_id_},
                   {"step", std::to_string(checkpoint.step)}};
  const std::string bytes = io::WriteSafetensors(file);
  const auto earlier = List(folder_);
  const std::int64_t number = earlier.empty() ? 1 : NumberIn(earlier.front()) + 1;
  io::WriteFileAtomically(folder_ / FileName(number, bytes), bytes);
  for (std::size_t i = kNumKept - 1; i < earlier.size(); ++i) Remove(earlier[i]);
}

std::optional<Checkpoint> CheckpointFolder::Load(std::vector<std::string>& problems) const {
  for (const auto& path : List(folder_)) {
    try {
      const std::string bytes = io::ReadFile(path, kMaxCheckpointBytes);
      io::TensorFile file = io::ReadSafetensors(bytes, path.string());
      if (FileName(NumberIn(path), bytes) != path.filename().string()) {
        throw Error(ExitCode::kBadInput, path.string() + ": damaged, its name does not match");
      }
      if (file.metadata["format"] != kFormat || file.metadata["run_id"] != run_id_) {
        throw Error(ExitCode::kBadInput, path.string() + ": belongs to another run");
      }
      Checkpoint checkpoint;
      checkpoint.step = std::stoll(file.metadata["step"]);
      checkpoint.progress = io::ParseJson(file.tensors.at(kProgress).bytes);
      file.tensors.erase(kProgress);
      checkpoint.tensors = FromTensorFile(file);
      return checkpoint;
    } catch (const std::exception& error) {
      problems.push_back(std::string(error.what()) + "; passed over");
    }
  }
  return std::nullopt;
}

void CheckpointFolder::RemoveAll(const std::filesystem::path& folder) {
  for (const auto& path : List(folder)) Remove(path);
}

}  // namespace mixerbench::harness
