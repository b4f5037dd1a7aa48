// `generate` and `export`: samples as files, the same bytes whatever wrote them.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>

#include "harness/cli/commands.h"
#include "harness/dataset/dataset_files.h"
#include "harness/dataset/text_files.h"
#include "io/sample_file.h"

namespace mixerbench::harness {
namespace {

using io::ElementType;
using io::SampleFormat;

SampleFormat FormatOf(const GenerateOptions& options) {
  std::string name = options.format;
  if (name.empty()) {
    name = std::filesystem::path(options.out).extension().string();
    name = name.empty() ? "jsonl" : name.substr(1);
  }
  for (const auto& [format, known] : EnumNames<SampleFormat>::kNames) {
    if (known == name) return format;
  }
  throw ConfigError(
      "--out", "'" + options.out + "' ends in none of .jsonl, .npy, .safetensors; say --format");
}

// The warnings also stand in the manifest, but there may be none.
void PrintWarnings(const Dataset& dataset) {
  for (const DatasetPart& part : dataset.parts) {
    for (const std::string& warning : part.task->warnings()) {
      std::cerr << "warning: " << (part.name.empty() ? "" : "part " + part.name + ": ") << warning
                << "\n";
    }
  }
}

// Writes every part to standard output, one after the other.
void PrintDataset(const Dataset& dataset, const FileMaker& make) {
  for (const DatasetPart& part : dataset.parts) {
    Sha256 stream;
    make(
        part, part.first, part.count,
        [](std::uint64_t, std::string_view bytes) { std::cout << bytes; }, stream);
  }
}

}  // namespace

ExitCode Generate(const GenerateOptions& options, const tasks::BatchGenerator& generate) {
  const Dataset dataset = ResolveDataset(options.samples, AllTasks());
  PrintWarnings(dataset);
  const SampleFormat format = FormatOf(options);
  if (format == SampleFormat::kJsonl && options.dtype != GenerateOptions{}.dtype) {
    throw ConfigError("--dtype", "is of npy and safetensors; numbers of jsonl are texts");
  }
  const ElementType dtype = options.dtype == "int64" ? ElementType::kI64 : ElementType::kI32;
  const FileMaker make = TokenFileMaker(dataset, format, dtype, generate, NumThreads(0));
  if (options.out.empty()) {
    if (format != SampleFormat::kJsonl) {
      throw ConfigError("--format " + options.format, "is binary; name a file with --out");
    }
    PrintDataset(dataset, make);
    return ExitCode::kOk;
  }
  io::DatasetManifest manifest = ManifestOf(dataset);
  manifest.format = NameOf(format);
  manifest.dtype = NameOf(dtype);
  WriteDataset(dataset, options.out, options.shards, make, std::move(manifest));
  std::cout << options.out << kManifestSuffix << "\n";
  return ExitCode::kOk;
}

ExitCode Export(const ExportOptions& options) {
  Dataset dataset = ResolveDataset(options.samples, AllTasks());
  NumberLinesThroughout(dataset);
  const FileMaker make = TextFileMaker(dataset, NumThreads(0));
  PrintWarnings(dataset);
  if (options.out.empty()) {
    PrintDataset(dataset, make);
    return ExitCode::kOk;
  }
  io::DatasetManifest manifest = ManifestOf(dataset);
  manifest.labels.clear();
  manifest.format = kTextFormat;
  WriteDataset(dataset, options.out, options.shards, make, std::move(manifest));
  std::cout << options.out << kManifestSuffix << "\n";
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
