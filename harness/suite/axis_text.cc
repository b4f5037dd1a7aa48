// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/axis_text.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>

#include "io/json.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::harness {
namespace {

using Modules = std::map<std::string, std::set<std::string>>;  // by the name of the class
using Names = std::map<std::string, std::string>;              // by module

// A mixer in Python is named by its class, every other one by its name.
bool IsPython(const Value& mixer) {
  const Value* name = mixer.Find("name");
  return name && name->is_string() && reports::MixerText(mixer) != name->as_string();
}

void CollectModules(const Value& value, Modules& found) {
  if (value.is_array()) {
    for (const Value& item : value.as_array()) CollectModules(item, found);
  } else if (value.is_object()) {
    if (IsPython(value)) {
      found[reports::MixerText(value)].insert(value.Find("module")->as_string());
    }
    for (const auto& [key, item] : value.as_object()) CollectModules(item, found);
  }
}

// Folders and file of "one/a.py:Mine", innermost first; of "one.a:Mine" the package as a whole.
std::vector<std::string> PlacesOf(const std::string& module) {
  std::string path = module.substr(0, module.rfind(':'));
  if (path.ends_with(".py")) path.resize(path.size() - 3);
  std::vector<std::string> places;
  for (const auto& part : std::filesystem::path(path)) {
    if (part != "." && part != "/") places.insert(places.begin(), part.string());
  }
  return places;
}

// "a.Mine" with one place, "one.a.Mine" with two.
std::string NameWith(const std::string& module, std::size_t num_places, const std::string& name) {
  const std::vector<std::string> places = PlacesOf(module);
  std::string text = name;
  for (std::size_t i = 0; i < std::min(num_places, places.size()); ++i) {
    text.insert(0, places[i] + ".");
  }
  return text;
}

// With as few places as tell `module` from `others`.
std::string NameAmong(const std::string& module, const std::set<std::string>& others,
                      const std::string& name) {
  const std::size_t most = PlacesOf(module).size();
  for (std::size_t num_places = 1; num_places < most; ++num_places) {
    const std::string text = NameWith(module, num_places, name);
    const auto same = std::count_if(others.begin(), others.end(), [&](const std::string& other) {
      return NameWith(other, num_places, name) == text;
    });
    if (same == 1) return text;  // itself
  }
  return NameWith(module, most, name);
}

Names NamesOf(const Modules& modules) {
  Names names;
  for (const auto& [name, alike] : modules) {
    for (const std::string& module : alike) {
      names[module] = alike.size() == 1 ? name : NameAmong(module, alike, name);
    }
  }
  return names;
}

std::string TextOf(const Value& value, const Names& names);

// An item that is joined itself stands in brackets.
std::string ItemText(const Value& item, const Names& names) {
  const std::string text = TextOf(item, names);
  return text.find('+') == std::string::npos ? text : "[" + text + "]";
}

std::string TextOf(const Value& value, const Names& names) {
  if (value.is_array()) {
    std::string text;
    for (const Value& item : value.as_array()) {
      text += (text.empty() ? "" : "+") + ItemText(item, names);
    }
    return text;
  }
  if (const Value* pattern = value.Find("pattern")) return TextOf(*pattern, names);
  const Value* name = value.Find("name");
  if (!name || !name->is_string()) return io::ValueText(value);
  const bool is_python = IsPython(value);
  std::string text =
      is_python ? names.at(value.Find("module")->as_string()) : reports::MixerText(value);
  const Value* options = is_python ? value.Find("options") : &value;
  if (options == nullptr || !options->is_object()) return text;
  for (const auto& [key, item] : options->as_object()) {
    if (is_python || key != "name") text += "," + key + "=" + TextOf(item, names);
  }
  return text;
}

// Texts say less than values do: true and "true", [1, 2] and "1+2". Cells of one name would be one
// row of a report, so the second value with a text is numbered.
void TellApart(const Array& values, std::vector<std::string>& texts) {
  std::map<std::string, std::vector<std::string>> alike;  // by text: values, as they come
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<std::string>& known = alike[texts[i]];
    const auto found = std::find(known.begin(), known.end(), io::DumpJson(values[i]));
    const auto number = found - known.begin() + 1;
    if (found == known.end()) known.push_back(io::DumpJson(values[i]));
    if (number > 1) texts[i] += " #" + std::to_string(number);
  }
}

}  // namespace

std::string AxisText(const Value& value) { return AxisTexts({value}).front(); }

std::vector<std::string> AxisTexts(const Array& values) {
  Modules modules;
  for (const Value& value : values) CollectModules(value, modules);
  const Names names = NamesOf(modules);
  std::vector<std::string> texts;
  for (const Value& value : values) texts.push_back(TextOf(value, names));
  TellApart(values, texts);
  return texts;
}

}  // namespace mixerbench::harness
