// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/config_schema.h"

#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "harness/suite/cell.h"
#include "harness/suite/held_mixers.h"
#include "harness/suite/section_forms.h"
#include "harness/suite/suite_keys.h"
#include "harness/suite/throughput_plan.h"
#include "harness/suite/train_config.h"
#include "harness/suite/write_gate_reset.h"
#include "io/form.h"

namespace mixerbench::harness {
namespace {

constexpr std::string_view kListOf = "list of ", kOneOf = "one of ";

// Of the type that `describe` shows. Objects are read by their owner: any value.
Value TypeSchema(std::string_view type) {
  if (type.starts_with(kListOf)) {
    return Object{{"type", "array"}, {"items", TypeSchema(type.substr(kListOf.size()))}};
  }
  if (type.starts_with(kOneOf)) {
    Array names;
    std::istringstream list{std::string(type.substr(kOneOf.size()))};
    for (std::string name; std::getline(list, name, '|');) names.emplace_back(name);
    return Object{{"enum", std::move(names)}};
  }
  if (type == "object") return Object{};
  return Object{{"type", type}};
}

Value FieldSchema(const FieldInfo& field) {
  Value schema = TypeSchema(field.type);
  schema.as_object()["description"] = field.help;
  schema.as_object()["default"] = field.default_value;
  return schema;
}

Object Properties(const std::vector<FieldInfo>& fields) {
  Object properties;
  for (const FieldInfo& field : fields) properties[field.name] = FieldSchema(field);
  return properties;
}

Value Closed(Object properties) {
  return Object{
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

Value AnyOf(Array schemas) { return Object{{"anyOf", std::move(schemas)}}; }

Value ListOf(Value items) { return Object{{"type", "array"}, {"items", std::move(items)}}; }

Value Names(const auto& registry) {
  Array names;
  for (const auto& [name, entry] : registry.entries()) names.emplace_back(name);
  return Object{{"enum", std::move(names)}};
}

// An object with `key`: "name" is of this form, for each of the registry's names.
template <typename Entry, typename Form>
Value ByName(const Registry<Entry>& registry, const char* key, const Form& form) {
  Array cases;
  for (const auto& [name, entry] : registry.entries()) {
    const Object is_it = {{"properties", Object{{key, Object{{"const", name}}}}},
                          {"required", Array{key}}};
    cases.push_back(Object{{"if", is_it}, {"then", form(entry)}});
  }
  return Object{{"type", "object"},
                {"properties", Object{{key, Names(registry)}}},
                {"allOf", std::move(cases)}};
}

// The options of a mixer, those that are mixers themselves (by what they are by default) included.
Object MixerProperties(const std::vector<FieldInfo>& fields) {
  const Object held = {{"$ref", "#/definitions/held_mixer"}};
  Object properties = Properties(fields);
  for (const FieldInfo& field : fields) {
    const Value& value = field.default_value;
    if (IsMixer(value)) properties[field.name] = held;
    if (IsListOfMixers(value)) properties[field.name] = ListOf(held);
  }
  return properties;
}

// A mixer with its options; a held one has no name in reports.
Value MixerSchema(const models::MixerRegistry& mixers, bool is_held) {
  Value mixer = ByName(mixers, "name", [is_held](const models::MixerEntry& entry) {
    Object properties = MixerProperties(entry.params);
    properties["name"] = Object{};
    if (!is_held) properties["label"] = Object{{"type", "string"}};
    return Closed(std::move(properties));
  });
  mixer.as_object()["required"] = Array{"name"};
  return mixer;
}

// The model: options of its backbone. Those of a backbone that is given as {"name": ..., options}
// or swept may stand beside it too, so they are closed only where the suite names one.
Value ModelSchema(const models::BackboneRegistry& backbones) {
  Value model = ByName(backbones, "backbone", [](const models::BackboneEntry& entry) {
    Object properties = Properties(entry.params);
    properties["backbone"] = Object{};
    properties["sequence_mixer"] = Object{{"$ref", "#/definitions/mixer"}};
    return Closed(std::move(properties));
  });
  Value with_options = Object{{"type", "object"}, {"required", Array{"name"}}};
  model.as_object()["properties"] =
      Object{{"backbone", AnyOf({Names(backbones), std::move(with_options)})},
             {"sequence_mixer", Object{{"$ref", "#/definitions/mixer"}}}};
  return model;
}

// Options of a split: of all its segments, or a list with one for each.
Object SplitProperties(const tasks::TaskEntry& entry) {
  Object properties;
  std::vector<FieldInfo> fields = entry.params;
  fields.push_back({"num_examples", "integer", Value(), "samples; of train, 0 is without end"});
  for (const FieldInfo& field : fields) {
    const Value each = TypeSchema(field.type);
    Value schema = AnyOf({each, ListOf(each)});
    schema.as_object()["description"] = field.help;
    properties[field.name] = std::move(schema);
  }
  return properties;
}

// Where a preset names the task, perhaps one that is swept, its options are open.
Value TaskSchema(const tasks::TaskRegistry& tasks) {
  Value task = ByName(tasks, "name", [](const tasks::TaskEntry& entry) {
    Object properties = SplitProperties(entry);
    for (const char* split : {"train", "validation", "test"}) {
      properties[split] = Closed(SplitProperties(entry));
    }
    for (const char* other : {"data_seed", "name", "preset"}) properties[other] = Object{};
    return Closed(std::move(properties));
  });
  Object& properties = task.as_object().at("properties").as_object();
  properties["preset"] = Object{{"type", "string"}};
  properties["data_seed"] = Object{{"type", "integer"}, {"minimum", 0}};
  return task;
}

// Of the values on a sweep's axes, by their paths; those of paths that are not named are open.
Object SweepOf(Object axes) {
  const Object factor = {{"properties", std::move(axes)}};
  const Object zip = {
      {"if", Object{{"type", "array"}}}, {"then", Object{{"items", factor}}}, {"else", factor}};
  return Object{{"properties", Object{{"grid", factor}, {"zip", zip}}}};
}

Value MixersAndTrainingSwept() {
  Object axes;
  const Object all = {{"const", "all"}};
  axes["model.sequence_mixer"] =
      AnyOf({all, ListOf(AnyOf({all, Object{{"$ref", "#/definitions/mixer"}}}))});
  for (const FieldInfo& field : TrainFields().Describe()) {
    axes["train." + field.name] = ListOf(TypeSchema(field.type));
  }
  return SweepOf(std::move(axes));
}

Object OptionsSwept(const tasks::TaskEntry& entry) {
  Object axes;
  for (auto& [name, schema] : SplitProperties(entry)) axes["task." + name] = ListOf(schema);
  return SweepOf(std::move(axes));
}

// What each use of the trainings tests, options of the task that the suite names.
Object UsesSchema(const tasks::TaskEntry& entry) {
  Object evaluated = SplitProperties(entry), analysed = evaluated;
  evaluated[kResetWriteGate] = Closed(Properties(WriteGateResetFields().Describe()));
  analysed["taps"] = TapsForm().schema;
  return Object{{"properties", Object{{"evaluate", ListOf(Closed(std::move(evaluated)))},
                                      {"analyse", ListOf(Closed(std::move(analysed)))},
                                      {"sweep", OptionsSwept(entry)}}}};
}

// Of what names options of the task elsewhere.
Array UsesByTask(const tasks::TaskRegistry& tasks) {
  Array cases;
  for (const auto& [name, entry] : tasks.entries()) {
    const Object is_name = {{"properties", Object{{"name", Object{{"const", name}}}}},
                            {"required", Array{"name"}}};
    cases.push_back(Object{{"if", Object{{"properties", Object{{"task", is_name}}}}},
                           {"then", UsesSchema(entry)}});
  }
  return cases;
}

Value SchemaOf(Value form, const char* title) {
  form.as_object()["$schema"] = "http://json-schema.org/draft-07/schema#";
  form.as_object()["title"] = title;
  return form;
}

}  // namespace

Value CollectionSchema() { return SchemaOf(CollectionForm().schema, "A collection of mixerbench"); }

Value ConfigSchema(const Registries& registries) {
  Object sections;
  for (const std::string& key : SuiteKeys()) sections[key] = Object{};
  for (const char* text : {"$schema", "name", "description", "schema_version"}) {
    sections[text] = Object{{"type", "string"}};
  }
  sections["seeds"] = SeedsForm().schema;
  sections["smoke"] = io::ObjectForm().schema;
  sections["sweep"] = Object{{"allOf", Array{SweepForm().schema, MixersAndTrainingSwept()}}};
  sections["throughput"] = ThroughputForm().schema;
  for (const char* list : {"analyse", "evaluate"}) {
    Object use = {{"type", "object"}};
    if (list == NameOf(CellKind::kAnalyse)) use["required"] = Array{"taps"};
    sections[list] = Object{
        {"type", "array"}, {"items", std::move(use)}, {"minItems", 1}, {"uniqueItems", true}};
  }
  sections["task"] = TaskSchema(registries.tasks);
  sections["model"] = ModelSchema(registries.backbones);
  sections["train"] = Closed(Properties(TrainFields().Describe()));
  Value schema = Closed(std::move(sections));
  schema.as_object().merge(Object{
      {"required", Array{"name", "task", "model"}},
      {"allOf", UsesByTask(registries.tasks)},
      {"definitions", Object{{"mixer", MixerSchema(registries.mixers, /*is_held=*/false)},
                             {"held_mixer", MixerSchema(registries.mixers, /*is_held=*/true)}}}});
  return SchemaOf(std::move(schema), "A suite of mixerbench");
}

}  // namespace mixerbench::harness
