// SPDX-License-Identifier: Apache-2.0
#include "harness/dataset/dataset_files.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "base/version.h"
#include "io/atomic_file.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

// Samples are made in runs of so many tokens, so that memory does not grow with their number.
constexpr std::int64_t kRunTokens = std::int64_t{1} << 22;
constexpr std::size_t kMaxManifestBytes = std::size_t{16} << 20;

// ",\"slices\":{...}": the bucket of every scored position for each slice key.
void AppendSlices(const tasks::Task& task, const std::vector<tasks::SliceKey>& keys,
                  std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                  std::string& json) {
  const auto num_scored = static_cast<std::size_t>(std::count_if(
      labels.begin(), labels.end(), [](std::int32_t label) { return label != tasks::kIgnore; }));
  std::vector<std::int32_t> buckets(num_scored * keys.size(), -1);
  task.AssignSlices(inputs, labels, buckets);
  json += ",\"slices\":{";
  for (std::size_t k = 0; k < keys.size(); ++k) {
    json += (k > 0 ? ",\"" : "\"") + keys[k].name + "\":[";
    for (std::size_t i = 0; i < num_scored; ++i) {
      if (i > 0) json += ',';
      const std::int32_t bucket = buckets[i * keys.size() + k];
      json += bucket < 0 ? "null" : "\"" + keys[k].buckets[static_cast<std::size_t>(bucket)] + "\"";
    }
    json += ']';
  }
  json += '}';
}

// The files of one part, in order.
std::vector<io::DatasetFile> PlanFiles(const DatasetPart& part, const fs::path& out,
                                       std::int64_t num_shards) {
  const std::string stem = out.stem().string() + (part.name.empty() ? "" : "-" + part.name);
  // count * shard / num_shards, of products that cannot overflow.
  const auto begin_of = [&](std::int64_t shard) {
    return part.count / num_shards * shard + part.count % num_shards * shard / num_shards;
  };
  std::vector<io::DatasetFile> files;
  for (std::int64_t shard = 0; shard < num_shards; ++shard) {
    const std::int64_t begin = begin_of(shard);
    const std::int64_t end = begin_of(shard + 1);
    const std::string number =
        num_shards > 1 ? fmt::format("-{:05}-of-{:05}", shard, num_shards) : "";
    files.push_back({.name = stem + number + out.extension().string(),
                     .first = part.first + static_cast<std::uint64_t>(begin),
                     .count = end - begin});
  }
  return files;
}

// Files that an earlier data set of this name would leave beside the new one are nobody's then.
void RefuseLeftovers(const fs::path& folder, const fs::path& manifest_path,
                     const io::DatasetManifest& planned) {
  if (!fs::exists(manifest_path)) return;
  std::set<std::string> names;
  for (const auto& part : planned.parts) {
    for (const auto& file : part.files) names.insert(file.name);
  }
  io::DatasetManifest old;
  try {
    old = io::ParseManifest(io::ReadFile(manifest_path, kMaxManifestBytes), manifest_path.string());
  } catch (const Error& error) {
    throw Error(ExitCode::kOutput, std::string("will not replace what is no manifest: ") +
                                       error.what() + "; choose another name");
  }
  for (const auto& part : old.parts) {
    for (const auto& file : part.files) {
      if (names.contains(file.name) || !fs::exists(folder / file.name)) continue;
      throw Error(ExitCode::kOutput, manifest_path.string() + " also lists " + file.name +
                                         ", which would be left over; remove that data set first");
    }
  }
}

}  // namespace

tasks::BatchGenerator CpuGenerator(int num_threads) {
  return
      [num_threads](std::string_view, const tasks::Task& task, const tasks::BatchRequest& request,
                    std::span<std::int32_t> inputs, std::span<std::int32_t> labels) {
        tasks::GenerateOnCpu(task, request, inputs, labels, num_threads);
      };
}

int NumThreads(std::int64_t requested) {
  if (requested > 0) return static_cast<int>(requested);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

FileMaker TokenFileMaker(const Dataset& dataset, io::SampleFormat format, io::ElementType dtype,
                         const tasks::BatchGenerator& generate, int num_threads) {
  return [=, &dataset, &generate](const DatasetPart& part, std::uint64_t first, std::int64_t count,
                                  const io::PutBytes& put, Sha256& stream) {
    const std::int64_t seq_len = part.task->shape().seq_len;
    const auto length = static_cast<std::size_t>(seq_len);
    const std::int64_t run = std::max<std::int64_t>(1, kRunTokens / seq_len);
    const std::vector<tasks::SliceKey> keys = part.task->slice_keys();
    const bool has_slices = dataset.labels == tasks::LabelMode::kScored && !keys.empty();
    io::SampleEncoder encoder(format, dtype, count, seq_len);
    encoder.Begin(put);
    std::vector<std::int32_t> inputs;
    std::vector<std::int32_t> labels;
    for (std::int64_t done = 0; done < count; done += run) {
      const tasks::BatchRequest request = {.key = dataset.Key(part),
                                           .first = first + static_cast<std::uint64_t>(done),
                                           .count = std::min(run, count - done),
                                           .order = {},
                                           .mode = dataset.labels};
      inputs.resize(static_cast<std::size_t>(request.count) * length);
      labels.resize(inputs.size());
      generate(dataset.task_name, *part.task, request, inputs, labels);
      io::SampleRows rows = {.first_index = request.first, .inputs = inputs, .labels = labels};
      if (has_slices) {
        rows.append_meta = [&](std::int64_t row, std::string& json) {
          const std::size_t offset = static_cast<std::size_t>(row) * length;
          AppendSlices(*part.task, keys, rows.inputs.subspan(offset, length),
                       rows.labels.subspan(offset, length), json);
        };
      }
      encoder.Add(rows, put, num_threads);
      for (std::size_t offset = 0; offset < inputs.size(); offset += length) {
        stream.Update(std::as_bytes(std::span(inputs).subspan(offset, length)));
        stream.Update(std::as_bytes(std::span(labels).subspan(offset, length)));
      }
    }
  };
}

io::DatasetManifest ManifestOf(const Dataset& dataset) {
  return {.generator = ToolVersion(),
          .task = dataset.task_name,
          .task_version = dataset.task_version,
          .task_code = std::string(tasks::TaskCodeHash(dataset.task_name)),
          .preset = dataset.preset,
          .seed = dataset.seed,
          .split = dataset.split,
          .labels = std::string(NameOf(dataset.labels))};
}

void WriteDataset(const Dataset& dataset, const std::string& out, std::int64_t num_shards,
                  const FileMaker& make, io::DatasetManifest manifest) {
  const fs::path folder = fs::path(out).parent_path();
  const fs::path manifest_path = out + kManifestSuffix;
  for (const DatasetPart& part : dataset.parts) {
    if (num_shards > part.count) {
      throw ConfigError("--shards",
                        fmt::format("{} shards for {} samples", num_shards, part.count));
    }
    const tasks::TaskShape shape = part.task->shape();
    manifest.parts.push_back({.name = part.name,
                              .params = part.params,
                              .canon = part.task->canon(),
                              .first = part.first,
                              .count = part.count,
                              .first_index = part.first_index,
                              .seq_len = shape.seq_len,
                              .vocab_size = shape.vocab_size,
                              .warnings = part.task->warnings(),
                              .files = PlanFiles(part, out, num_shards)});
  }
  for (const auto& part : manifest.parts) {
    for (const auto& file : part.files) {
      if (io::IsSafeFileName(file.name)) continue;
      throw ConfigError("--out", "'" + file.name + "' is no name that works everywhere: letters, " +
                                     "digits, '.', '_' and '-', at most 128, no dot in front");
    }
  }
  for (const auto& part : manifest.parts) {
    for (const auto& file : part.files) io::ResolveOutput(folder / file.name);
  }
  RefuseLeftovers(folder, manifest_path, manifest);
  io::RemoveAbandoned(manifest_path);
  std::error_code error;  // a folder that forbids it fails below, with a message
  fs::remove(io::ResolveOutput(manifest_path), error);
  for (std::size_t i = 0; i < manifest.parts.size(); ++i) {
    Sha256 stream;
    for (io::DatasetFile& record : manifest.parts[i].files) {
      const fs::path path = folder / record.name;
      io::RemoveAbandoned(path);
      io::AtomicFile file(path);
      make(
          dataset.parts[i], record.first, record.count,
          [&](std::uint64_t offset, std::string_view bytes) { file.WriteAt(offset, bytes); },
          stream);
      file.Commit();
      record.num_bytes = static_cast<std::int64_t>(io::InputFile(path).size());
      record.sha256 = io::HashFile(path);
    }
    manifest.parts[i].sha256 = stream.Hex();
  }
  io::WriteFileAtomically(manifest_path, io::DumpManifest(manifest));
}

}  // namespace mixerbench::harness
