// `mixer check`: does a mixer keep the promises of models/mixer.h?
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/interop/mixer_setup.h"
#include "harness/interop/unit_files.h"
#include "harness/interop/unit_run.h"
#include "harness/python/host.h"
#include "harness/python/watch.h"
#include "io/json.h"
#include "io/text.h"
#include "models/checks/mixer_checks.h"

namespace mixerbench::harness {
namespace {

namespace checks = models::checks;

constexpr std::int64_t kWidth = 16;     // d_model when none is set
constexpr std::int64_t kLongest = 160;  // max_seq_len when none is set

checks::Candidate ToCandidate(const MixerCheckOptions& options, const Registries& registries) {
  MixerSetup setup = ParseMixerSetup(options.name, options.set, registries.mixers);
  UnitRunOptions numerics_options;
  numerics_options.dtype = options.dtype;
  numerics_options.device = options.device;
  const UnitNumerics numerics = ParseNumerics(numerics_options);
  return checks::Candidate(
      {.config = Value(std::move(setup.config)),
       .where = "--set",
       .context = {.d_model = setup.d_model > 0 ? setup.d_model : kWidth,
                   .layer_index = setup.layer_index,
                   .num_layers = setup.num_layers,
                   .max_seq_len = setup.max_seq_len > 0 ? setup.max_seq_len : kLongest,
                   .registry = &registries.mixers},
       .device = numerics.device,
       .backward = [](const at::Tensor& root) { Backward(root); }},
      numerics.parameters);
}

std::vector<const checks::MixerCheck*> Chosen(const MixerCheckOptions& options) {
  std::vector<const checks::MixerCheck*> chosen;
  std::vector<std::string> names;
  for (const checks::MixerCheck& check : checks::MixerChecks()) {
    names.push_back(check.name);
    const bool is_skipped = std::count(options.skip.begin(), options.skip.end(), check.name) > 0;
    if (!is_skipped) chosen.push_back(&check);
  }
  for (const std::string& name : options.skip) {
    if (std::count(names.begin(), names.end(), name) > 0) continue;
    throw ConfigError("--skip", UnknownName("check", name, names));
  }
  return chosen;
}

struct Row {
  const checks::MixerCheck* check;
  checks::Finding finding;
};

std::string Number(double value) {
  std::ostringstream text;
  text << std::setprecision(2) << value;
  return text.str();
}

// One line, as people read it.
std::string WhatWasFound(const checks::Finding& finding) {
  if (!finding.reason.empty()) return io::PlainLine(finding.reason);
  if (finding.tolerance == 0) return {};
  const std::string where = io::PlainLine(finding.where) + ": ";
  if (!std::isfinite(finding.error)) return where + "another shape, or values that are not finite";
  return where + Number(finding.error) + (finding.passed ? ", may be " : ", may only be ") +
         Number(finding.tolerance);
}

Object ToObject(const Row& row) {
  const checks::Finding& finding = row.finding;
  Object object{
      {"name", row.check->name}, {"promise", row.check->promise}, {"passed", finding.passed}};
  if (const std::string found = WhatWasFound(finding); !found.empty()) object["found"] = found;
  if (!finding.reason.empty()) object["reason"] = finding.reason;
  if (finding.tolerance == 0) return object;
  object["where"] = finding.where;
  // Null: the shapes differ, or a value is not finite.
  object["error"] = std::isfinite(finding.error) ? Value(finding.error) : Value();
  object["tolerance"] = finding.tolerance;
  return object;
}

void PrintRow(const Row& row) {
  std::cout << (row.finding.passed ? "ok    " : "FAIL  ") << std::left << std::setw(11)
            << row.check->name << row.check->promise << "\n";
  const std::string found = WhatWasFound(row.finding);
  if (!found.empty()) std::cout << std::string(17, ' ') << found << "\n";
}

// What was found, as lines that appear when it is or as one JSON document.
class Report {
 public:
  // Both must outlive it.
  Report(const MixerCheckOptions& options, const checks::SubjectSpec& spec)
      : options_(options), spec_(spec) {}

  void Start(std::int64_t num_values) {
    num_values_ = num_values;
    if (options_.json) return;
    std::cout << options_.name << ": d_model " << spec_.context.d_model << ", " << num_values
              << " parameters, " << options_.dtype << " on " << options_.device << "\n"
              << std::flush;
  }

  void Add(const Row& row) {
    rows_.emplace_back(ToObject(row));
    num_failed_ += row.finding.passed ? 0 : 1;
    if (!options_.json) PrintRow(row);
    std::cout << std::flush;
  }

  // `left`: the checks that nothing was found of.
  ExitCode Conclude(const std::vector<const checks::MixerCheck*>& left) {
    if (options_.json) {
      Object report{{"mixer", spec_.config},         {"d_model", spec_.context.d_model},
                    {"num_parameters", num_values_}, {"dtype", options_.dtype},
                    {"device", options_.device},     {"passed", num_failed_ == 0}};
      Array not_run;
      for (const checks::MixerCheck* check : left) not_run.emplace_back(check->name);
      if (!left.empty()) report["not_run"] = std::move(not_run);
      report["checks"] = std::move(rows_);
      std::cout << io::DumpJson(std::move(report), 2);
    } else {
      std::cout << std::ssize(rows_) - num_failed_ << " passed, " << num_failed_ << " failed"
                << (left.empty() ? "" : ", " + std::to_string(left.size()) + " not run") << "\n";
    }
    std::cout << std::flush;
    return num_failed_ == 0 ? ExitCode::kOk : ExitCode::kNo;
  }

 private:
  const MixerCheckOptions& options_;
  const checks::SubjectSpec& spec_;
  std::int64_t num_values_ = 0;
  Array rows_;
  std::ptrdiff_t num_failed_ = 0;
};

// One thread for all that is checked: torch.compile crashes where a class that one thread has
// compiled is called by another.
class CheckThread {
 public:
  CheckThread() : thread_([this](const std::stop_token& stop) { WorkUntil(stop); }) {}

  // What `work` returns or throws; nothing when it takes longer. It then still runs, and all that
  // it uses, this thread too, must stay until the process ends.
  template <typename Work>
  std::optional<std::invoke_result_t<Work>> Within(double seconds, Work work) {
    using Task = std::packaged_task<std::invoke_result_t<Work>()>;
    const auto task = std::make_shared<Task>(std::move(work));
    auto result = task->get_future();
    {
      const std::lock_guard lock(mutex_);
      next_ = [task] { (*task)(); };
    }
    given_.notify_one();
    const auto status = result.wait_for(std::chrono::duration<double>(seconds));
    if (status == std::future_status::timeout) return std::nullopt;
    return result.get();
  }

 private:
  void WorkUntil(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (given_.wait(lock, stop, [this] { return next_ != nullptr; })) {
      std::function<void()> work = std::exchange(next_, nullptr);
      lock.unlock();
      work();
      work = nullptr;  // what it holds is destroyed where it was used
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any given_;
  std::function<void()> next_;
  std::jthread thread_;  // last: it uses the others
};

// Of a module in Python its values are compared as well: it may not write to them.
checks::Finding RunKeepingValues(const checks::MixerCheck& check,
                                 const checks::Candidate& candidate) {
  KeptValues values;
  checks::Finding finding = checks::RunCheck(check, candidate);
  try {
    values.End();
  } catch (const PythonError& error) {
    finding.Holds(false, error.what());
  }
  return finding;
}

std::int64_t CountValues(const checks::Candidate& candidate) {
  std::int64_t count = 0;
  for (const auto& parameter : candidate.InExact().parameters()) {
    count += parameter.tensor.numel();
  }
  return count;
}

// " within 120 s (mine.py:14 in forward)".
std::string After(const MixerCheckOptions& options, const PythonWatch& watch) {
  const std::string places = watch.Here();
  std::ostringstream text;
  text << " within " << options.check_timeout_s << " s"
       << (places.empty() ? "" : " (" + places + ")") << "; --check-timeout gives it longer";
  return text.str();
}

// It cannot be stopped, and may hold the lock of the interpreter that runs this program: that is
// not returned to, and takes this code for a kNo (python/mixerbench/host.py).
[[noreturn]] void EndWithWhatHangs() {
  constexpr int kHangs = 124;
  std::_Exit(HasPython() ? kHangs : static_cast<int>(ExitCode::kNo));
}

}  // namespace

ExitCode MixerCheck(const MixerCheckOptions& options, const Registries& registries) {
  const std::vector<const checks::MixerCheck*> chosen = Chosen(options);
  const checks::Candidate candidate = ToCandidate(options, registries);
  const PythonWatch watch("", WhenAsked::kGoesOn);
  Report report(options, candidate.spec());
  CheckThread thread;
  const auto is_built =
      thread.Within(options.check_timeout_s, [&] { return CountValues(candidate); });
  if (!is_built) {
    std::cerr << "error: " << options.name << " is not built" << After(options, watch) << "\n";
    EndWithWhatHangs();
  }
  report.Start(*is_built);
  for (auto check = chosen.begin(); check != chosen.end(); ++check) {
    const auto finding = thread.Within(options.check_timeout_s,
                                       [&] { return RunKeepingValues(**check, candidate); });
    if (finding) {
      report.Add({*check, *finding});
      continue;
    }
    checks::Finding hangs;
    hangs.Holds(false, "does not end" + After(options, watch));
    report.Add({*check, hangs});
    report.Conclude({std::next(check), chosen.end()});
    EndWithWhatHangs();
  }
  return report.Conclude({});
}

}  // namespace mixerbench::harness
