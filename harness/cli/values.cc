// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "io/json.h"

namespace mixerbench::harness::cli {
namespace {

// More seeds than anybody averages over: `--seeds 777` may mean the seed 777.
constexpr std::int64_t kMaxSeedCount = 100;

constexpr double kMaxSeconds = 36525 * 86400.;

std::uint64_t ReadCountVariable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) {
    throw ConfigError("--shard slurm", std::string(name) +
                                           " is not set: this is no task of a "
                                           "Slurm job array; give I/N instead");
  }
  return static_cast<std::uint64_t>(ParseCount(text, name));
}

std::vector<std::uint64_t> CountSeeds(const std::string& text) {
  const std::int64_t count = ParseCount(text, "--seeds");
  if (count < 1 || count > kMaxSeedCount) {
    throw ConfigError("--seeds", text + " is a number of seeds, which must be in 1.." +
                                     std::to_string(kMaxSeedCount) + "; for the one seed " + text +
                                     " write --seeds " + text + ",");
  }
  std::vector<std::uint64_t> seeds;
  for (std::int64_t i = 0; i < count; ++i) seeds.push_back(static_cast<std::uint64_t>(i));
  return seeds;
}

}  // namespace

io::Settings ParseSettings(const std::vector<std::string>& texts) {
  io::Settings settings;
  for (const std::string& text : texts) {
    if (io::ValidUtf8(text) != text) throw ConfigError("--set", "expected UTF-8");
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw ConfigError("--set " + text, "expected path=value, such as train.lr=0.003");
    }
    settings.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return settings;
}

std::int64_t ParseCount(const std::string& text, const std::string& where) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != text.npos) {
    throw ConfigError(where, "expected a whole number, got '" + text.substr(0, 40) + "'");
  }
  return std::stoll(text);
}

std::uint64_t ParseUnsigned(const std::string& text, const std::string& where) {
  constexpr std::size_t kMaxShown = 40;
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, number);
  if (code != std::errc() || stop != end) {
    throw ConfigError(
        where, "expected a whole number from 0 to 2^64-1, got '" + text.substr(0, kMaxShown) + "'");
  }
  return number;
}

std::vector<std::uint64_t> ParseSeeds(const std::string& text) {
  if (text.empty()) return {};
  if (text.find(',') == std::string::npos) return CountSeeds(text);
  std::vector<std::uint64_t> seeds;
  std::set<std::uint64_t> known;
  std::stringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    if (item.empty()) continue;
    seeds.push_back(static_cast<std::uint64_t>(ParseCount(item, "--seeds")));
    if (!known.insert(seeds.back()).second) {
      throw ConfigError("--seeds", "seed " + item + " stands there twice");
    }
  }
  if (seeds.empty()) throw ConfigError("--seeds", "'" + text + "' names no seed");
  return seeds;
}

std::vector<std::string> ParseFailOn(const std::string& text,
                                     const std::vector<std::string>& known) {
  constexpr std::size_t kShown = 40;
  std::vector<std::string> names;
  std::istringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) {
    if (name.empty()) continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string list;
      for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
      throw ConfigError("--fail-on", "'" + name.substr(0, kShown) + "' is none of " + list);
    }
    names.push_back(name);
  }
  return names;
}

std::optional<double> ParseSeconds(const std::string& text) {
  static const std::map<char, double> kUnits = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
  double seconds = 0;
  const char* next = text.c_str();
  do {
    char* end = nullptr;
    const double number = std::strtod(next, &end);
    if (end == next || !std::isfinite(number) || number < 0) return std::nullopt;
    if (*end == '\0' && next == text.c_str()) {
      seconds = number;
      break;
    }
    const auto unit = kUnits.find(*end);
    if (unit == kUnits.end()) return std::nullopt;
    seconds += number * unit->second;
    next = end + 1;
  } while (*next != '\0');
  if (seconds > kMaxSeconds) return std::nullopt;
  return seconds;
}

Shard ParseShard(const std::string& text) {
  if (text.empty()) return {};
  Shard shard;
  if (text == "slurm") {
    shard.index =
        ReadCountVariable("SLURM_ARRAY_TASK_ID") - ReadCountVariable("SLURM_ARRAY_TASK_MIN");
    shard.count = ReadCountVariable("SLURM_ARRAY_TASK_COUNT");
  } else {
    const std::size_t slash = text.find('/');
    if (slash == std::string::npos)
      throw ConfigError("--shard " + text, "expected I/N, such as 0/4");
    shard.index = static_cast<std::uint64_t>(ParseCount(text.substr(0, slash), "--shard " + text));
    shard.count = static_cast<std::uint64_t>(ParseCount(text.substr(slash + 1), "--shard " + text));
  }
  if (shard.index >= shard.count) {
    throw ConfigError(
        "--shard " + text,
        "part " + std::to_string(shard.index) + " of " + std::to_string(shard.count) +
            " does not exist; parts count from 0 and array indices must be consecutive");
  }
  return shard;
}

}  // namespace mixerbench::harness::cli
