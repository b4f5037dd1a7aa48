// `verify`: data sets made again and compared, and what can be said of them without a model.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>

#include "harness/cli/commands.h"
#include "harness/dataset/dataset_compare.h"
#include "harness/dataset/text_files.h"
#include "harness/dataset/verify_checks.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "tasks/golden.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

// Samples of a data set that are checked when nothing else is said.
constexpr std::int64_t kDefaultCount = 10'000;
// Training samples that the samples of a file are looked for in.
constexpr std::int64_t kMaxTrain = 20'000'000;
constexpr std::size_t kMaxManifestBytes = std::size_t{16} << 20;

// What was found, as lines on stdout and as JSON.
class Findings {
 public:
  explicit Findings(bool json) : json_(json) {}

  // The facts of one data set; `faults` are what is wrong with it.
  void Add(const std::string& name, const Object& facts, const std::string& text,
           const std::vector<std::string>& faults) {
    Array fault_list;
    for (const std::string& fault : faults) fault_list.emplace_back(fault);
    num_faults_ += std::ssize(faults);
    if (json_) {
      Object row = facts;
      row["name"] = name;
      row["faults"] = std::move(fault_list);
      rows_.emplace_back(std::move(row));
      return;
    }
    std::cout << name << ": " << text << "\n";
    for (const std::string& fault : faults) std::cout << "  FAULT " << fault << "\n";
  }

  ExitCode End() {
    if (json_) {
      std::cout << io::DumpJson(
          Object{{"verified", num_faults_ == 0}, {"data_sets", std::move(rows_)}}, 2);
    } else {
      std::cout << (num_faults_ == 0 ? "verified\n" : fmt::format("{} faults\n", num_faults_));
    }
    return num_faults_ == 0 ? ExitCode::kOk : ExitCode::kNo;
  }

 private:
  bool json_;
  Array rows_;
  std::int64_t num_faults_ = 0;
};

ExitCode VerifyManifest(const std::string& path, const VerifyOptions& options) {
  const auto manifest = io::ParseManifest(io::ReadFile(path, kMaxManifestBytes), path);
  const auto registry = AllTasks();
  const Dataset dataset = DatasetOf(manifest, path, registry);
  const tasks::TaskEntry& entry = registry.Find(dataset.task_name, "");
  const int num_threads = NumThreads(options.threads);
  const std::string folder = fs::path(path).parent_path().string();
  const auto generate = CpuGenerator(num_threads);
  const FileMaker make = MakerOf(dataset, manifest, path, generate, num_threads);
  if (manifest.task_code != tasks::TaskCodeHash(manifest.task)) {
    std::cerr << "note: the sources of this task have changed since the data set was made\n";
  }
  Findings findings(options.json);
  for (std::size_t i = 0; i < dataset.parts.size(); ++i) {
    const DatasetPart& part = dataset.parts[i];
    const io::DatasetPart& record = manifest.parts[i];
    Check check;
    check.facts["num_samples"] = part.count;
    check.text = fmt::format("{} samples in {} files", part.count, record.files.size());
    if (part.task->canon() != record.canon) {
      check.faults.push_back("the recorded options give '" + part.task->canon() + "', not '" +
                             record.canon + "'");
    }
    const auto faults = CompareFiles(dataset, part, manifest, record, folder, make, num_threads);
    if (!faults.empty() && manifest.task_version != dataset.task_version) {
      check.faults.push_back(
          fmt::format("holds version {1} of the task, and this program makes version {2} "
                      "(tasks/{0}/{0}.md says what changed): generate it again",
                      manifest.task, manifest.task_version, dataset.task_version));
    }
    check.faults.insert(check.faults.end(), faults.begin(), faults.end());
    if (check.faults.empty()) {  // else the samples are not those that the options stand for
      const bool is_train = dataset.split == static_cast<std::uint64_t>(tasks::Split::kTrain);
      const tasks::TaskSamples range{*part.task, dataset.Key(part), part.first, part.count};
      const auto train =
          is_train ? std::vector<TrainStream>{}
                   : TrainStreams(entry, dataset.preset, part.params, dataset.seed, part.count);
      CheckRepetitions(range, train, kMaxTrain, num_threads, check);
      CheckAgainstOracle(range, check);
      if (!is_train) FindCeiling(range, train, check);
    }
    findings.Add(part.name.empty() ? path : path + " part " + part.name, check.facts, check.text,
                 check.faults);
  }
  return findings.End();
}

// One data set of a task, without a file.
void VerifySet(const std::string& task_name, const tasks::TaskEntry& entry,
               const tasks::DataSet& set, const std::string& preset_name, std::int64_t max_count,
               int num_threads, Findings& findings) {
  const auto task = entry.create(set.params, "");
  const auto key = tasks::DeriveKey(task->canon(), set.seed, static_cast<std::uint64_t>(set.split));
  const std::int64_t count = set.num_samples > 0 ? std::min(set.num_samples, max_count) : max_count;
  const tasks::TaskSamples range{*task, key, 0, count};
  Check check;
  check.facts["num_samples"] = count;
  check.facts["golden_sha256"] =
      tasks::GoldenHash(task_name, *task, key, CpuGenerator(num_threads));
  check.text = fmt::format("{} samples", count);
  CheckRepeatability(range, num_threads, check);
  const bool is_train = set.split == tasks::Split::kTrain;
  const auto train = is_train ? std::vector<TrainStream>{}
                              : TrainStreams(entry, preset_name, set.params, set.seed, count);
  CheckRepetitions(range, train, max_count, num_threads, check);
  CheckAgainstOracle(range, check);
  if (!is_train) FindCeiling(range, train, check);
  findings.Add(set.name, check.facts, check.text, check.faults);
}

ExitCode VerifyTask(const VerifyOptions& options) {
  const auto registry = AllTasks();
  const int num_threads = NumThreads(options.threads);
  const std::int64_t max_count = options.count > 0 ? options.count : kDefaultCount;
  const Dataset dataset = ResolveDataset(
      {.what = options.what, .set = options.set, .seed = options.seed, .count = max_count},
      registry);
  const tasks::TaskEntry& entry = registry.Find(dataset.task_name, "");
  Findings findings(options.json);
  if (!options.set.empty() || options.seed.has_value()) {  // one setting, every split
    for (const tasks::Split split :
         {tasks::Split::kTrain, tasks::Split::kValidation, tasks::Split::kTest}) {
      for (const DatasetPart& part : dataset.parts) {
        const std::string name = options.what + (part.name.empty() ? "" : "-" + part.name) + "/" +
                                 SplitName(static_cast<std::uint64_t>(split));
        VerifySet(dataset.task_name, entry, {name, part.params, split, dataset.seed, max_count}, "",
                  max_count, num_threads, findings);
      }
    }
    return findings.End();
  }
  for (const tasks::Preset& preset : entry.presets) {
    if (!dataset.preset.empty() && preset.name != dataset.preset) continue;
    for (const tasks::DataSet& set : tasks::DataSetsOf(preset)) {
      VerifySet(dataset.task_name, entry, set, preset.name, max_count, num_threads, findings);
    }
  }
  return findings.End();
}

// A path by its form, for what does not exist: tasks and presets have neither.
bool LooksLikePath(const std::string& what) {
  for (const char* ending : {".json", ".jsonl", ".npy", ".safetensors"}) {
    if (what.ends_with(ending)) return true;
  }
  return what.starts_with('/') || what.starts_with("./") || what.starts_with("../");
}

// The manifest of a file: beside it, or the file itself.
std::string FindManifest(const std::string& file) {
  const std::string beside = file + kManifestSuffix;
  if (fs::exists(beside)) return beside;
  if (file.ends_with(kManifestSuffix)) return file;
  try {
    io::ParseManifest(io::ReadFile(file, kMaxManifestBytes), file);
  } catch (const Error&) {
    throw Error(ExitCode::kBadInput,
                file + ": is no manifest, and there is none beside it (" + beside + ")");
  }
  return file;
}

}  // namespace

ExitCode Verify(const VerifyOptions& options) {
  const std::string& what = options.what;
  const bool is_file = fs::exists(what) && !fs::is_directory(what);
  if (!is_file && !fs::exists(what + kManifestSuffix)) {
    if (!LooksLikePath(what)) return VerifyTask(options);
    throw Error(ExitCode::kBadInput, what + ": cannot read: there is no such file");
  }
  if (!options.set.empty() || options.count > 0 || options.seed.has_value()) {
    throw ConfigError("verify", "the manifest says which samples: no --set, --seed or --count");
  }
  return VerifyManifest(FindManifest(what), options);
}

}  // namespace mixerbench::harness
