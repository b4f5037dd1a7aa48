// `mixer check`: does a mixer keep the promises of models/mixer.h?
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "harness/interop/mixer_setup.h"
#include "harness/interop/unit_files.h"
#include "harness/interop/unit_run.h"
#include "harness/python/host.h"
#include "io/json.h"
#include "io/text.h"
#include "models/checks/mixer_checks.h"

namespace mixerbench::harness {
namespace {

namespace checks = models::checks;

constexpr std::int64_t kWidth = 16;     // d_model when none is set
constexpr std::int64_t kLongest = 160;  // max_seq_len when none is set

checks::Candidate ToCandidate(const MixerCheckOptions& options, const Registries& registries) {
  MixerSetup setup = ParseMixerSetup(options.name, options.set);
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

Object ToObject(const Row& row) {
  const checks::Finding& finding = row.finding;
  Object object{
      {"name", row.check->name}, {"promise", row.check->promise}, {"passed", finding.passed}};
  if (!finding.reason.empty()) object["reason"] = finding.reason;
  if (finding.tolerance == 0) return object;
  object["where"] = finding.where;
  // Null: the shapes differ, or a value is not finite.
  object["error"] = std::isfinite(finding.error) ? Value(finding.error) : Value();
  object["tolerance"] = finding.tolerance;
  return object;
}

std::string Number(double value) {
  std::ostringstream text;
  text << std::setprecision(2) << value;
  return text.str();
}

std::string WhatWasFound(const checks::Finding& finding) {
  if (!finding.reason.empty()) return finding.reason;
  if (finding.tolerance == 0) return {};
  const std::string measured =
      std::isfinite(finding.error) ? Number(finding.error) : "another shape or not finite";
  return finding.where + ": " + measured + (finding.passed ? ", may be " : ", may only be ") +
         Number(finding.tolerance);
}

void PrintRow(const Row& row) {
  std::cout << (row.finding.passed ? "ok    " : "FAIL  ") << std::left << std::setw(11)
            << row.check->name << row.check->promise << "\n";
  const std::string found = WhatWasFound(row.finding);
  if (!found.empty()) std::cout << std::string(17, ' ') << io::PlainLine(found) << "\n";
}

}  // namespace

ExitCode MixerCheck(const MixerCheckOptions& options, const Registries& registries) {
  const std::vector<const checks::MixerCheck*> chosen = Chosen(options);
  const checks::Candidate candidate = ToCandidate(options, registries);
  std::int64_t num_values = 0;
  for (const auto& parameter : candidate.InExact().parameters()) {
    num_values += parameter.tensor.numel();
  }
  if (!options.json) {
    std::cout << options.name << ": d_model " << candidate.spec().context.d_model << ", "
              << num_values << " parameters, " << options.dtype << " on " << options.device << "\n";
  }
  Array rows;
  std::int64_t num_failed = 0;
  for (const checks::MixerCheck* check : chosen) {
    const Row row{check, checks::RunCheck(*check, candidate)};
    num_failed += row.finding.passed ? 0 : 1;
    rows.emplace_back(ToObject(row));
    if (!options.json) PrintRow(row);
    std::cout << std::flush;
  }
  if (options.json) {
    std::cout << io::DumpJson(Object{{"mixer", candidate.spec().config},
                                     {"d_model", candidate.spec().context.d_model},
                                     {"num_parameters", num_values},
                                     {"dtype", options.dtype},
                                     {"device", options.device},
                                     {"checks", std::move(rows)},
                                     {"passed", num_failed == 0}},
                              2);
  } else {
    std::cout << chosen.size() - static_cast<std::size_t>(num_failed) << " passed, " << num_failed
              << " failed\n";
  }
  return num_failed == 0 ? ExitCode::kOk : ExitCode::kNo;
}

}  // namespace mixerbench::harness
