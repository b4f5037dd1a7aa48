// SPDX-License-Identifier: Apache-2.0
#include "reports/view/correspondence.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <numeric>

#include "base/dotted_path.h"
#include "io/json.h"
#include "io/value_path.h"
#include "reports/view/config_leaves.h"
#include "reports/view/counted.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

// A parameter of papers, as a path of our configs.
struct Param {
  const char* path;
  const char* words;           // "{} layers"; `{}` is the value
  bool names_setting = false;  // without it equal, results are of different settings
};

constexpr char kNumRates[] = "num_rates";  // of those that the paper's is the best of
constexpr char kSteps[] = "train.steps";
constexpr char kLength[] = "task.test.input_seq_len";
constexpr char kTrainExamples[] = "task.train.num_examples";

const std::map<std::string, Param>& Params() {
  static const std::map<std::string, Param> kParams = {
      {"seq_len", {"task.test.input_seq_len", "{} tokens", true}},
      {"context", {"task.test.input_seq_len", "{} tokens", true}},
      {"test_length", {"task.test.input_seq_len", "{} tokens", true}},
      {"length", {kLength, "{} tokens"}},
      {"train_length", {"task.train.input_seq_len", "training at {} tokens"}},
      {"kv_pairs", {"task.test.num_kv_pairs", "{} pairs", true}},
      {"vocab", {"task.test.vocab_size", "a vocabulary of {}"}},
      {"tokens_to_copy", {"task.test.num_tokens_to_copy", "{} tokens to copy"}},
      {"d_model", {"model.d_model", "d {}", true}},
      {"dim", {"model.d_model", "d {}"}},
      {"channels", {"model.d_model", "d {}"}},
      {"layers", {"model.n_layers", "{} layers"}},
      {"batch", {"train.batch_size", "batch {}"}},
      {"epochs", {"train.num_epochs", "{} epochs"}},
      {"train_examples", {kTrainExamples, "{} training sequences"}},
      {"instruction", {"task.test.inst", "instruction {}"}},
      {"steps", {kSteps, "{} steps"}},
      {"lr", {"train.lr", "lr {}"}}};
  return kParams;
}

// Of all segments; empty where each is new.
std::string NumTrainExamples(const Value& config) {
  const std::vector<double> counts = NumbersOf(SegmentsOf(config, "train"), "num_examples");
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  return sum > 0 ? fmt::format("{:.0f}", sum) : "";
}

// All steps of the training; the configured limit alone where the steps of an epoch follow from the
// data.
std::string NumSteps(const Value& config) {
  const double limit = NumberOf(ConfigText(config, "train.max_steps")).value_or(0);
  const double planned = NumberOf(ConfigText(config, "train.steps_per_epoch")).value_or(0) *
                         NumberOf(ConfigText(config, "train.num_epochs")).value_or(0);
  const double steps = limit > 0 && planned > 0 ? std::min(limit, planned) : limit + planned;
  return steps > 0 ? fmt::format("{:.0f}", steps) : "";
}

// Tokens of a sample of a task whose options name its parts: noise with data, then a marker each.
std::string CopyingLength(const Value& config) {
  const auto prefix = NumberOf(ConfigText(config, "task.test.prefix_len"));
  const auto copied = NumberOf(ConfigText(config, "task.test.num_tokens_to_copy"));
  return prefix && copied ? fmt::format("{:.0f}", *prefix + *copied) : "";
}

// The paper's value as our options write it.
std::string Theirs(const std::string& key, const Value& value) {
  std::string text = io::ValueText(value);
  if (key != "instruction") return text;
  return text == "no inst" ? "none" : text.starts_with("strong") ? "strong" : text;
}

// Our value at the path of a parameter: the segment's own before the config's first segment.
std::string Ours(const Param& param, const Value& config, const Object& axes) {
  const std::string path = param.path;
  if (path == kSteps) return NumSteps(config);
  if (path == kTrainExamples) return NumTrainExamples(config);
  if (path == kLength && ConfigText(config, "task.name") == "selective_copying") {
    return CopyingLength(config);
  }
  if (path.starts_with("task.test.")) {
    const auto found = axes.find(LastPart(path));
    if (found != axes.end()) return io::ValueText(found->second);
  }
  return ConfigText(config, path);
}

bool Equal(const std::string& ours, const std::string& theirs) {
  const auto a = PublishedNumber(ours);
  const auto b = PublishedNumber(theirs);
  return a && b ? *a == *b : ours == theirs;
}

// Where papers have essays, ours has other prose.
bool IsProse(const std::string& haystack) {
  return haystack.starts_with("kjv") || haystack == "file";
}

// Which needle task of a paper: haystack and needle types of ours.
bool SameNeedleTask(const PublishedResult& result, const Value& config) {
  const std::string haystack = ConfigText(config, "task.test.type_haystack");
  const std::string value = ConfigText(config, "task.test.type_needle_v");
  if (result.task == "NIAH-1") return haystack == "noise";
  if (result.task == "NIAH-2") return IsProse(haystack) && value == "numbers";
  if (result.task == "NIAH-3") return IsProse(haystack) && value == "uuids";
  if (result.task == "NIAH-Word") return value == "words";
  return true;
}

std::string NameOf(const Value& mixer) { return io::StringAt(mixer, "name"); }

// The names of layers that hold `wrapper` once, over the mixer of all others: with the place of the
// layer and, as papers often do, without.
std::vector<std::string> NamesOfPattern(const Array& pattern, const std::string& wrapper) {
  std::string inner, place;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool is_wrapped = NameOf(pattern[i]) == wrapper;
    if (is_wrapped && !place.empty()) return {};
    if (is_wrapped) place = std::to_string(i);
    const Value* held = is_wrapped ? pattern[i].Find("inner") : &pattern[i];
    const std::string name = held ? NameOf(*held) : "";
    if (name.empty() || (!inner.empty() && name != inner)) return {};
    inner = name;
  }
  if (place.empty()) return {};
  const std::string both = inner + " + " + wrapper;
  return {both, both + " layer " + place};
}

// What papers may call the mixer of this model, as OurMixerName writes it.
std::vector<std::string> PublishedNames(const Value& config) {
  const Value* model = config.Find("model");
  const Value* mixer = model ? model->Find("sequence_mixer") : nullptr;
  if (mixer == nullptr) return {};
  const std::string name = NameOf(*mixer);
  if (const Value* core = mixer->Find("core"); core && name == "selectlti") {
    return {NameOf(*core) + " + selectlti"};
  }
  const Value* pattern = mixer->Find("pattern");
  if (pattern && pattern->is_array() && name == "hybrid") {
    return NamesOfPattern(pattern->as_array(), "resona");
  }
  return {name};
}

// Papers have attention with several kinds of positions in one table; a name without one is any.
bool SamePositions(const PublishedResult& result, const Value& config) {
  const std::string in_attention = ConfigText(config, "model.sequence_mixer.position");
  if (result.mixer.ends_with("RoPE")) return in_attention == "rope";
  if (!result.mixer.ends_with("absolute positions")) return true;
  return in_attention != "rope" && ConfigText(config, "model.positions") != "none";
}

// SelectLTI's table has S6 with and without its kernel.
bool SameKernel(const PublishedResult& result, const Value& config) {
  const auto kernel = result.params.find("custom_kernel");
  if (kernel == result.params.end() || !kernel->second.is_bool()) return true;
  const std::string fused = ConfigText(config, "model.sequence_mixer.fused");
  return fused.empty() || fused == (kernel->second.as_bool() ? "true" : "false");
}

// MAD's noisy recall is its recall with noise.
bool SameNoise(const PublishedResult& result, const Value& config) {
  const std::string noise = ConfigText(config, "task.test.frac_noise");
  const bool is_noisy = NumberOf(noise).value_or(0) > 0;
  return is_noisy == (result.task.find("noisy") != std::string::npos);
}

// RESONA's table of MQAR has "RWKV" and "RWKV + RESONA layer 0".
bool NamesNoVersion(const PublishedResult& result) {
  return result.mixer == "RWKV" || result.mixer.starts_with("RWKV ");
}

// Whether a parameter only says which row of the paper's table a mixer is.
bool NamesRow(const std::string& param) {
  return param == "architecture" || param == "custom_kernel" || param == "selective_mechanism";
}

// "batch 256", "2 layers", "lr 1e-3", "1 layer".
std::string InWords(const Param& param, const std::string& value) {
  const auto number = PublishedNumber(value);
  const bool is_rate = std::string_view(param.words).starts_with("lr");
  std::string text =
      fmt::format(fmt::runtime(param.words), is_rate && number && *number > 0 ? RateText(*number)
                                             : number                         ? Count(*number)
                                                                              : value);
  if (number && *number == 1 && text.ends_with("s")) text.pop_back();
  return text;
}

// A param that we have no counterpart for, as the paper writes it: "model_size 1.3B".
std::string AsStated(const std::string& key, const Value& value) {
  if (IsModelSize(key)) return io::ValueText(value) + " parameters";
  if (value.is_bool()) return (value.as_bool() ? "" : "no ") + key;
  return key + " " + io::ValueText(value);
}

std::string Listed(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return text;
}

}  // namespace

std::optional<double> PublishedNumber(std::string_view text) {
  const bool in_k = text.ends_with('k') || text.ends_with('K');
  const auto number = NumberOf(text.substr(0, text.size() - (in_k ? 1 : 0)));
  return number && in_k ? *number * 1024 : number;
}

std::optional<double> NumParameters(std::string_view text) {
  static const std::map<std::string_view, double> kFactors = {
      {"", 1}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}};
  const auto number = LeadingNumberOf(text);
  const auto factor = number ? kFactors.find(number->rest) : kFactors.end();
  return factor == kFactors.end() ? std::nullopt : std::optional(number->value * factor->second);
}

std::string SettingText(const PublishedResult& result) {
  std::string text;
  for (const auto& [key, value] : result.params) {
    const auto known = Params().find(key);
    if (known == Params().end() || !known->second.names_setting) continue;
    text += (text.empty() ? "" : ", ") + key + " " + io::ValueText(value);
  }
  return result.task + (text.empty() ? "" : ", " + text);
}

bool SameMixer(const PublishedResult& result, const Value& config) {
  const std::string theirs = OurMixerName(result);
  const std::vector<std::string> ours = PublishedNames(config);
  if (theirs.empty() || std::find(ours.begin(), ours.end(), theirs) == ours.end()) return false;
  return SamePositions(result, config) && SameKernel(result, config);
}

bool Corresponds(const PublishedResult& result, const Value& config, const Object& axes) {
  const std::string task = ConfigText(config, "task.name");
  if (task.empty() || OurTaskName(result.task) != task) return false;
  if (task == "mad_icr" && !SameNoise(result, config)) return false;
  if (task == "niah" && !SameNeedleTask(result, config)) return false;
  if (!SameMixer(result, config)) return false;
  return std::all_of(result.params.begin(), result.params.end(), [&](const auto& item) {
    const auto known = Params().find(item.first);
    return known == Params().end() || !known->second.names_setting ||
           Equal(Ours(known->second, config, axes), Theirs(item.first, item.second));
  });
}

std::string SentenceOf(const Contrasts& contrasts) {
  std::vector<std::string> clauses = contrasts.clauses;
  if (!contrasts.stated.empty()) {
    clauses.insert(clauses.begin(), "the paper also states " + Listed(contrasts.stated));
  }
  if (!contrasts.ours.empty()) {
    clauses.insert(clauses.begin(), "ours has " + Listed(contrasts.ours) + ", the paper " +
                                        Listed(contrasts.theirs));
  }
  if (clauses.empty()) return "";
  std::string text = fmt::format("{}.", fmt::join(clauses, "; "));
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

bool IsModelSize(std::string_view param) {
  return param == "params" || param == "param_count" || param == "model_size";
}

bool SameModelSize(double ours, double theirs) { return std::abs(ours / theirs - 1) < 0.1; }

Contrasts ContrastsOf(const PublishedResult& result, const Value& config, const Object& axes,
                      std::int64_t num_parameters) {
  Contrasts contrasts;
  for (const auto& [key, value] : result.params) {
    if (NamesRow(key) || key == kNumRates) continue;
    const std::string text = io::ValueText(value);
    const std::string first_word = text.substr(0, text.find(' '));  // a remark may follow
    if (const auto size = IsModelSize(key) ? NumParameters(first_word) : std::nullopt) {
      const auto own = static_cast<double>(num_parameters);
      if (!SameModelSize(own, *size)) {
        contrasts.Differ(Si(own) + " parameters", AsStated(key, value));
      }
      continue;
    }
    const auto known = Params().find(key);
    const std::string ours = known == Params().end() ? "" : Ours(known->second, config, axes);
    const std::string theirs = Theirs(key, value);
    if (ours.empty()) {
      contrasts.stated.push_back(known == Params().end() ? AsStated(key, value)
                                                         : InWords(known->second, theirs));
    } else if (!Equal(ours, theirs)) {
      contrasts.Differ(InWords(known->second, ours), InWords(known->second, theirs));
    }
  }
  return contrasts;
}

std::string Differences(const PublishedResult& result, const Value& config, const Object& axes,
                        std::int64_t num_parameters, std::int64_t num_rates) {
  Contrasts contrasts = ContrastsOf(result, config, axes, num_parameters);
  const auto add = [&](std::string clause) { contrasts.clauses.push_back(std::move(clause)); };
  if (result.metric.find("best") != std::string::npos) {
    const auto theirs = result.params.find(kNumRates);
    const double num_theirs = theirs == result.params.end() ? 0 : theirs->second.as_double();
    if (num_rates == 1) {
      add("ours is of one learning rate, the paper's the best of several");
    } else if (num_theirs > 0 && static_cast<double>(num_rates) != num_theirs) {
      add(fmt::format("ours is the best of {} learning rates, the paper's of {}", num_rates,
                      num_theirs));
    }
  }
  if (result.metric.starts_with("validation")) {
    add("the paper's is of its validation set, ours of the test set");
  }
  if (HowCounted(result) == CountedAs::kWholeOutputs) {
    const double stop = NumberOf(ConfigText(config, "train.early_stop_accuracy")).value_or(0);
    if (stop > 0 && stop < 1) {
      add(fmt::format("ours stops training at {:g} % of single tokens", 100 * stop));
    }
  }
  if (NamesNoVersion(result)) add("ours is RWKV-5, the paper does not say which RWKV");
  if (result.task == "NIAH-2" || result.task == "NIAH-3") {
    add("the paper's haystack is of essays");
  }
  if (result.task.starts_with("MAD")) {
    if (HowCounted(result) == CountedAs::kWholeOutputs) {
      add("the paper says that it counts whole outputs, MAD's code means over classes");
    }
    add(num_rates > 1 ? "the paper's is a mean over the settings of the benchmark"
                      : "the paper's is a mean over the settings of the benchmark, each the best "
                        "of six rates and decays");
  }
  return SentenceOf(contrasts);
}

}  // namespace mixerbench::reports
