// `doctor`: is this machine fit for runs?
// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/doctor.h"

#include <algorithm>
#include <fmt/format.h>
#include <iostream>
#include <utility>

#include "harness/cli/cache_folder.h"
#include "harness/cli/commands.h"
#include "io/json.h"
#include "io/text.h"

namespace mixerbench::harness {
namespace {

std::int64_t Count(const std::vector<HealthCheck>& checks, Verdict verdict) {
  return std::count_if(checks.begin(), checks.end(),
                       [&](const HealthCheck& check) { return check.verdict == verdict; });
}

Array ToArray(const std::vector<HealthCheck>& checks) {
  Array array;
  for (const HealthCheck& check : checks) {
    array.push_back(Object{{"check", check.name},
                           {"verdict", std::string(NameOf(check.verdict))},
                           {"text", io::PlainLine(check.text)}});
  }
  return array;
}

}  // namespace

ExitCode Doctor(const DoctorOptions& options, const EngineCommands& engine) {
  if (options.engine_only) {
    std::cout << io::DumpJson(ToArray(engine.check(options.device, options.wait_idle_s)));
    return ExitCode::kOk;
  }
  // First, as it may wait for the machine to be idle.
  std::vector<HealthCheck> of_engine = engine.check(options.device, options.wait_idle_s);
  std::vector<HealthCheck> checks = CheckMachine();
  checks.push_back(CheckFolder("output folder", options.out));
  checks.push_back(CheckFolder("temporary files", std::filesystem::temp_directory_path()));
  HealthCheck cache = CheckFolder("cache", CacheFolder());
  // Runs do without it; the noise of a runner (`compare --self`) is kept there.
  if (cache.verdict == Verdict::kFail) cache.verdict = Verdict::kWarn;
  checks.push_back(std::move(cache));
  for (HealthCheck& check : of_engine) checks.push_back(std::move(check));
  const std::int64_t num_failed = Count(checks, Verdict::kFail);
  if (options.json) {
    std::cout << io::DumpJson(Object{{"checks", ToArray(checks)}, {"fit", num_failed == 0}}, 2);
  } else {
    for (const HealthCheck& check : checks) {
      std::cout << fmt::format("{:<4}  {:<15} {}\n", NameOf(check.verdict), check.name,
                               io::PlainLine(check.text));
    }
    std::cout << fmt::format("{} ok, {} to look at, {} failed\n", Count(checks, Verdict::kOk),
                             Count(checks, Verdict::kWarn), num_failed);
  }
  return num_failed == 0 ? ExitCode::kOk : ExitCode::kEnvironment;
}

}  // namespace mixerbench::harness
