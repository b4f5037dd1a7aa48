// SPDX-License-Identifier: Apache-2.0
#include "reports/published/published.h"

#include <algorithm>
#include <utility>

#include "io/json.h"
#include "io/object_reader.h"
#include "reports/published/published_text.h"

namespace mixerbench::reports {
namespace {

// Letters and digits, small: "Mamba-2" and "Mamba2" are one name.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') plain += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) plain += c;
  }
  return plain;
}

std::string Lookup(const std::map<std::string, std::string>& names, std::string_view name) {
  const auto found = names.find(Plain(name));
  return found == names.end() ? "" : found->second;
}

}  // namespace

std::vector<PublishedResult> ParsePublished(std::string_view text) {
  const Value document = io::ParseJson(text, io::kReportLimits);
  const io::ObjectReader reader(document, "");
  std::vector<PublishedResult> results;
  reader.List("tables", [&](const Value& value, const std::string& where) {
    const io::ObjectReader table(value, where);
    PublishedResult common{.source = table.String("source"),
                           .table = table.String("table"),
                           .task = table.String("task"),
                           .mixer = "",
                           .metric = table.String("metric"),
                           .unit = table.String("unit"),
                           .value = {},
                           .params = table.Member("params").as_object(),
                           .note = table.String("note")};
    table.List("values", [&](const Value& item, const std::string& place) {
      const io::ObjectReader row(item, place);
      PublishedResult result = common;
      result.mixer = row.String("mixer");
      // A text, such as "57344*seqlen", is quoted in the file and compared with nothing.
      if (!row.Member("value").is_string()) result.value = row.OptionalNumber("value");
      if (row.Has("params")) {
        for (const auto& [key, param] : row.Member("params").as_object()) {
          result.params[key] = param;
        }
      }
      results.push_back(std::move(result));
      return 0;
    });
    return 0;
  });
  return results;
}

const std::vector<PublishedResult>& PublishedResults() {
  static const std::vector<PublishedResult> kResults = ParsePublished(kPublishedText);
  return kResults;
}

std::optional<double> PublishedShare(const PublishedResult& result) {
  if (!result.value || result.metric.find("accuracy") == std::string::npos) return std::nullopt;
  if (result.unit == "percent") return *result.value / 100;
  if (result.unit == "fraction") return result.value;
  return std::nullopt;
}

namespace {

std::string OurPlainMixerName(std::string_view published) {
  static const std::map<std::string, std::string> kNames = {
      {"attention", "attention"},
      {"attentionabsolutepositions", "attention"},
      {"attentionrope", "attention"},
      {"baseconv", "base_conv"},
      {"deltanet", "delta_net"},
      {"fullattention", "attention"},
      {"gateddeltanet", "gated_delta_net"},
      {"gdn", "gated_delta_net"},
      {"gla", "gla"},
      {"glanope", "gla"},
      {"gsa", "gsa"},
      {"h3", "h3"},
      {"hgrn2", "hgrn2"},
      {"hyena", "hyena"},
      {"linearattention", "linear_attention"},
      {"mamba", "mamba"},
      {"mamba2", "mamba2"},
      {"raven", "raven"},
      {"retnet", "retnet"},
      {"rwkv", "rwkv5"},  // of no stated version, which the reports say
      {"rwkv5", "rwkv5"},
      {"rwkv6", "rwkv6"},
      {"rwkv7", "rwkv7"},
      {"s4", "s4"},
      {"s4d", "s4d"},
      {"s5", "s5"},
      {"s6", "s6"},
      {"simplegla", "simple_gla"},
      {"sse", "sse"},
      {"swa", "sliding_window"},
      {"transformer", "attention"},
      {"transformerfoxgate", "fox"},
      {"transformerrope", "attention"}};
  return Lookup(kNames, published);
}

}  // namespace

std::string OurMixerName(std::string_view published) {
  const std::size_t plus = published.find(" + ");
  if (plus == std::string_view::npos) return OurPlainMixerName(published);
  const std::string inner = OurPlainMixerName(published.substr(0, plus));
  static const std::map<std::string, std::string> kWrappers = {{"resona", "resona"},
                                                               {"resonalayer0", "resona layer 0"},
                                                               {"resonalayer2", "resona layer 2"},
                                                               {"selectlti", "selectlti"}};
  const std::string wrapper = Lookup(kWrappers, published.substr(plus + 3));
  return inner.empty() || wrapper.empty() ? "" : inner + " + " + wrapper;
}

std::string OurMixerName(const PublishedResult& result) {
  const std::string name = OurMixerName(result.mixer);
  const auto architecture = result.params.find("architecture");
  if (architecture == result.params.end() || !architecture->second.is_string()) return name;
  static const std::map<std::pair<std::string, std::string>, std::string> kBlocks = {
      {{"no gate", "s4"}, "s4"},
      {{"no gate", "s6"}, "s6"},
      {{"H3", "s4"}, "h3"},
      {{"H3", "hyena"}, "hyena"},
      {{"Mamba", "s6"}, "mamba"}};
  const auto found = kBlocks.find({architecture->second.as_string(), name});
  return found == kBlocks.end() ? "" : found->second;
}

std::string OurTaskName(std::string_view published) {
  static const std::map<std::string, std::string> kNames = {
      {"mqar", "mqar"},
      {"inductionheads", "induction_heads"},
      {"selectivecopying", "selective_copying"},
      {"madcompression", "mad_compression"},
      {"madfuzzyincontextrecall", "mad_fuzzy"},
      {"madincontextrecall", "mad_icr"},
      {"madnoisyincontextrecall", "mad_icr"},
      {"madmemorization", "mad_memorization"},
      {"madselectivecopying", "mad_selective_copying"},
      {"niah1", "niah"},
      {"niah2", "niah"},
      {"niah3", "niah"},
      {"niahword", "niah"}};
  return Lookup(kNames, published);
}

}  // namespace mixerbench::reports
