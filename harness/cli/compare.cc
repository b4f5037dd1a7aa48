// `compare`: two reports in, a verdict out.
// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/compare.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <iostream>

#include "base/sha256.h"
#include "gate/render/comparison_json.h"
#include "gate/render/comparison_page.h"
#include "gate/render/text_renderers.h"
#include "harness/cli/cache_folder.h"
#include "harness/cli/commands.h"
#include "harness/cli/paired_builds.h"
#include "harness/run/folder_report.h"
#include "harness/run/verdict_outputs.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/value_path.h"
#include "reports/export/workflow_command.h"
#include "reports/summary/select.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

gate::GateSettings ReadSettings(const CompareOptions& options) {
  Object settings = {{"preset", options.gate}};
  const auto presets = gate::PresetNames();
  std::string where = "--gate";
  if (std::find(presets.begin(), presets.end(), options.gate) == presets.end() &&
      fs::is_regular_file(options.gate)) {
    const Value document = io::ParseJson(io::ReadFile(options.gate));
    if (!document.is_object()) throw ConfigError("--gate " + options.gate, "expected an object");
    settings = document.as_object();
    where = options.gate + ": ";
  }
  for (const auto& [path, text] : options.set) {
    settings[path] = io::ParseSettingValue(text);
    where = "--set";
  }
  gate::GateSettings read = gate::ParseSettings(settings, where);
  const auto& fail_on = options.fail_on;
  if (std::find(fail_on.begin(), fail_on.end(), "inconclusive") != fail_on.end()) {
    read.inconclusive_fails = true;
  }
  return read;
}

gate::Tolerance ToleranceOf(const CompareOptions& options) {
  gate::Tolerance tolerance;
  tolerance.missing = options.allow_missing;
  if (!options.fail_on_is_given) return tolerance;
  const auto fails = [&](const char* name) {
    return std::find(options.fail_on.begin(), options.fail_on.end(), name) != options.fail_on.end();
  };
  tolerance.missing = tolerance.missing || !fails("missing");
  tolerance.empty = !fails("empty");
  tolerance.inconclusive = !fails("inconclusive");
  tolerance.failed_cells = !fails("failed");
  return tolerance;
}

// --- the runner's noise -----------------------------------------------------------------------

fs::path CalibrationFolder(const CompareOptions& options) {
  if (!options.calibration.empty()) return options.calibration;
  return CacheFolder() / "calibration";
}

fs::path CalibrationFile(const CompareOptions& options, const std::string& runner) {
  constexpr std::size_t kDigits = 16;
  return CalibrationFolder(options) / (Sha256Hex(runner).substr(0, kDigits) + ".json");
}

std::optional<gate::Calibration> ReadCalibration(const CompareOptions& options,
                                                 const std::string& runner) {
  const fs::path file = CalibrationFile(options, runner);
  if (!fs::is_regular_file(file)) return std::nullopt;
  try {
    return gate::CalibrationFromValue(io::ParseJson(io::ReadFile(file)));
  } catch (const Error& error) {
    throw Error(ExitCode::kBadInput, file.string() + ": " + error.what());
  }
}

void StoreCalibration(const CompareOptions& options, const gate::Calibration& calibration) {
  const fs::path file = CalibrationFile(options, calibration.runner);
  fs::create_directories(file.parent_path());
  io::WriteFileAtomically(file, io::DumpJson(gate::CalibrationToValue(calibration), 1));
  std::cerr << fmt::format("noise of {}: least growth of a time that is judged {:.1f} %; {}\n",
                           calibration.runner, 100 * calibration.LeastTimeGrowth(), file.string());
}

std::string Now() {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

// --- outputs ----------------------------------------------------------------------------------

void WriteOutputs(const CompareOptions& options, const gate::Comparison& comparison,
                  const gate::Tolerance& tolerance, ExitCode code) {
  const std::string json = gate::RenderJson(comparison, code);
  WriteOutput(options.json_file, json);
  WriteOutput(options.markdown_file, gate::RenderMarkdown(comparison, code));
  WriteOutput(options.outputs.html_file, gate::RenderPage(comparison, code));
  WriteOutput(options.outputs.junit_file, gate::RenderJUnit(comparison, tolerance));
  if (const std::string& file = options.outputs.job_summary; !file.empty()) {
    AppendJobSummary(file, gate::RenderMarkdown(comparison, code, reports::kMaxSummaryBytes));
    std::cerr << gate::RenderAnnotations(comparison);
  }
  std::cout << (options.outputs.json ? json
                                     : gate::RenderTerminal(comparison, code, options.all_rows));
}

// --- the comparison ---------------------------------------------------------------------------

struct Loaded {
  reports::SweepReport base, candidate;
  std::optional<gate::Timings> timings;  // with --pairs
};

gate::Side SideOf(const std::string& name, const reports::SweepReport& report) {
  return {name, report.cells, reports::SelectedOver(report.config)};
}

gate::Comparison CompareOnce(const CompareOptions& options, const gate::GateSettings& settings,
                             const Loaded& loaded) {
  const gate::Side base = SideOf(options.base, loaded.base);
  const gate::Side candidate = SideOf(options.candidate, loaded.candidate);
  std::optional<gate::Calibration> calibration;
  if (options.self) {
    calibration = gate::Calibrate(base, candidate, loaded.timings.value_or(gate::Timings()),
                                  settings.pairs, Now());
    StoreCalibration(options, *calibration);
  } else {
    calibration = ReadCalibration(options, gate::RunnerOf(candidate));
  }
  gate::Comparison comparison =
      gate::CompareReports({base, candidate, loaded.timings ? &*loaded.timings : nullptr,
                            calibration ? &*calibration : nullptr},
                           settings);
  if (!calibration && loaded.timings) {
    comparison.notes.push_back(
        {"", "this runner is not calibrated: compare one build with itself by --self"});
  }
  return comparison;
}

Builds BuildsOf(const CompareOptions& options) {
  Builds builds;
  builds.candidate = options.candidate_program.empty() ? ThisProgram() : options.candidate_program;
  builds.base = options.self ? builds.candidate : options.base_program;
  if (builds.base.empty()) {
    throw ConfigError("--measure", "which build is the base? give --base-program, or --self");
  }
  return builds;
}

}  // namespace

ExitCode Compare(const CompareOptions& options) {
  const gate::GateSettings settings = ReadSettings(options);
  const gate::Tolerance tolerance = ToleranceOf(options);
  RequireWritable(options.outputs);  // before hours of measuring
  RequireWritable("--verdict", options.json_file);
  RequireWritable("--markdown", options.markdown_file);
  if (!options.measure.empty()) {
    MeasurePairs(BuildsOf(options), options.measure, options.device, options.pairs, settings);
  }
  Loaded loaded{ReadReport(options.base), ReadReport(options.candidate), {}};
  if (!options.pairs.empty()) loaded.timings = ReadPairs(options.pairs, settings);
  gate::Comparison comparison = CompareOnce(options, settings, loaded);
  // Each round reaches the next look of the settings, so there are no more rounds than looks.
  for (std::size_t round = 0;
       options.top_up && comparison.seeds_wanted && round < settings.looks.size(); ++round) {
    std::cerr << fmt::format("inconclusive: {} seeds for both sides\n", *comparison.seeds_wanted);
    AddSeeds(BuildsOf(options), options.base, options.candidate, *comparison.seeds_wanted,
             options.device);
    loaded.base = ReadReport(options.base);
    loaded.candidate = ReadReport(options.candidate);
    comparison = CompareOnce(options, settings, loaded);
  }
  const ExitCode code = gate::CodeOf(comparison, tolerance);
  WriteOutputs(options, comparison, tolerance, code);
  return code;
}

}  // namespace mixerbench::harness
