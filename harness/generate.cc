// `generate`: samples as files, the same bytes whatever wrote them.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <span>

#include "base/sha256.h"
#include "harness/commands.h"
#include "harness/value_path.h"
#include "harness/version.h"
#include "reports/atomic_file.h"
#include "reports/json.h"
#include "reports/tensor_file.h"
#include "tasks/task.h"

namespace mixerbench::harness {
namespace {

constexpr std::int64_t kFirstUserSplit = 16;
// Rows are made and written in blocks of so many tokens, so that memory does not grow with --count.
constexpr std::int64_t kBlockTokens = std::int64_t{1} << 22;

struct Request {
  std::string task_name;
  Value params;  // resolved
  std::unique_ptr<tasks::Task> task;
  std::uint64_t seed = 0;
  std::uint64_t split = 0;
  tasks::BatchRequest batch;
};

std::uint64_t ParseSplit(const std::string& text) {
  if (text == "train") return static_cast<std::uint64_t>(tasks::Split::kTrain);
  if (text == "validation") return static_cast<std::uint64_t>(tasks::Split::kValidation);
  if (text == "test") return static_cast<std::uint64_t>(tasks::Split::kTest);
  const Value value = ParseSettingValue(text);
  if (value.is_int() && value.as_int() >= kFirstUserSplit) {
    return static_cast<std::uint64_t>(value.as_int());
  }
  throw ConfigError("--split",
                    "'" + text + "' is none of train, validation, test or a number >= 16");
}

tasks::LabelMode ParseLabels(const std::string& text) {
  if (text == "all_tokens") return tasks::LabelMode::kAllTokens;
  if (text == "target_only") return tasks::LabelMode::kTargetOnly;
  return tasks::LabelMode::kScored;
}

Request ParseRequest(const GenerateOptions& options) {
  tasks::TaskRegistry registry("task");
  tasks::RegisterTasks(registry);
  Request request;
  Object params;
  for (const auto& [name, entry] : registry.entries()) {
    for (const auto& preset : entry.presets) {
      if (preset.name != options.what) continue;
      if (!preset.train.empty() || !preset.test.empty()) {
        throw ConfigError("generate", "'" + preset.name +
                                          "' is a mixture; generate its settings "
                                          "one by one (mixerbench list presets --json)");
      }
      request.task_name = name;
      params = preset.params.as_object();
      request.seed = preset.seed;
    }
  }
  if (request.task_name.empty()) request.task_name = options.what;
  const auto& entry = registry.Find(request.task_name, "generate");
  for (const auto& [path, text] : options.set) params[path] = ParseSettingValue(text);
  request.params = entry.resolve(params, "--set");
  request.task = entry.create(request.params, "--set");
  if (options.seed >= 0) request.seed = static_cast<std::uint64_t>(options.seed);
  request.split = ParseSplit(options.split);
  request.batch = {.key = tasks::DeriveKey(request.task->canon(), request.seed, request.split),
                   .first = options.start,
                   .count = options.count,
                   .order = {},
                   .mode = ParseLabels(options.labels)};
  return request;
}

// Calls `sink` with consecutive blocks of rows.
template <typename Sink>
void ForEachBlock(const Request& request, const BatchGenerator& generate, Sink sink) {
  const std::int64_t seq_len = request.task->shape().seq_len;
  const std::int64_t rows = std::max<std::int64_t>(1, kBlockTokens / seq_len);
  std::vector<std::int32_t> inputs, labels;
  for (std::int64_t done = 0; done < request.batch.count; done += rows) {
    tasks::BatchRequest block = request.batch;
    block.first += static_cast<std::uint64_t>(done);
    block.count = std::min(rows, request.batch.count - done);
    inputs.assign(static_cast<std::size_t>(block.count * seq_len), 0);
    labels.assign(inputs.size(), 0);
    generate(request.task_name, *request.task, block, inputs, labels);
    sink(block, inputs, labels);
  }
}

std::string JsonLines(const tasks::BatchRequest& block, std::int64_t seq_len,
                      const std::vector<std::int32_t>& inputs,
                      const std::vector<std::int32_t>& labels) {
  const auto list = [seq_len](const std::vector<std::int32_t>& values, std::int64_t row) {
    std::string text = "[";
    for (std::int64_t t = 0; t < seq_len; ++t) {
      if (t) text += ",";
      text += std::to_string(values[static_cast<std::size_t>(row * seq_len + t)]);
    }
    return text + "]";
  };
  std::string text;
  for (std::int64_t row = 0; row < block.count; ++row) {
    const std::uint64_t index = block.first + static_cast<std::uint64_t>(row);
    text += "{\"inputs\":" + list(inputs, row) + ",\"labels\":" + list(labels, row) +
            ",\"meta\":{\"index\":" + std::to_string(index) + "}}\n";
  }
  return text;
}

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Everything needed to make the same file again, and its hash.
std::string Manifest(const Request& request, const GenerateOptions& options,
                     const std::string& file_hash) {
  return reports::DumpJson(Object{{"kind", "dataset"},
                                  {"schema_version", "1.0.0"},
                                  {"generator", ToolVersion()},
                                  {"task", request.task_name},
                                  {"params", request.params},
                                  {"canon", request.task->canon()},
                                  {"seed", std::to_string(request.seed)},
                                  {"split", std::to_string(request.split)},
                                  {"start", std::to_string(options.start)},
                                  {"count", options.count},
                                  {"seq_len", request.task->shape().seq_len},
                                  {"vocab_size", request.task->shape().vocab_size},
                                  {"labels", options.labels},
                                  {"ignore_label", tasks::kIgnore},
                                  {"format", options.format},
                                  {"sha256", file_hash}},
                           2);
}

}  // namespace

void GenerateBatchOnCpu(const std::string&, const tasks::Task& task,
                        const tasks::BatchRequest& request, std::vector<std::int32_t>& inputs,
                        std::vector<std::int32_t>& labels) {
  tasks::GenerateOnCpu(task, request, inputs, labels);
}

ExitCode Generate(const GenerateOptions& options, const BatchGenerator& generate) {
  const Request request = ParseRequest(options);
  const std::int64_t seq_len = request.task->shape().seq_len;
  if (options.out.empty()) {
    if (options.format != "jsonl") {
      throw ConfigError("--format " + options.format, "is binary; name a file with --out");
    }
    ForEachBlock(request, generate, [&](const auto& block, const auto& inputs, const auto& labels) {
      std::cout << JsonLines(block, seq_len, inputs, labels);
    });
    return ExitCode::kOk;
  }
  std::string text;
  std::vector<std::int32_t> all_inputs, all_labels;
  ForEachBlock(request, generate, [&](const auto& block, const auto& inputs, const auto& labels) {
    if (options.format == "jsonl") {
      text += JsonLines(block, seq_len, inputs, labels);
    } else {
      all_inputs.insert(all_inputs.end(), inputs.begin(), inputs.end());
      all_labels.insert(all_labels.end(), labels.begin(), labels.end());
    }
  });
  const std::vector<std::int64_t> shape = {options.count, seq_len};
  if (options.format == "safetensors") {
    reports::TensorFile file;
    file.tensors["inputs"] = {reports::ElementType::kI32, shape, Bytes(all_inputs)};
    file.tensors["labels"] = {reports::ElementType::kI32, shape, Bytes(all_labels)};
    text = reports::WriteSafetensors(file);
  } else if (options.format == "npy") {  // [2, count, seq_len]: inputs, then labels
    all_inputs.insert(all_inputs.end(), all_labels.begin(), all_labels.end());
    text = reports::WriteNpy(all_inputs, std::vector<std::int64_t>{2, options.count, seq_len});
  }
  reports::WriteFileAtomically(options.out, text);
  reports::WriteFileAtomically(options.out + ".manifest.json",
                               Manifest(request, options, "sha256:" + Sha256Hex(text)));
  std::cout << options.out << "\n";
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
