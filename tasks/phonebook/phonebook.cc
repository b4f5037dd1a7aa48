// SPDX-License-Identifier: Apache-2.0
#include "tasks/phonebook/phonebook.h"

#include "tasks/phonebook/phonebook_task.h"
#include "tasks/rules.h"
#include "tasks/text/text_presets.h"

namespace mixerbench::tasks::phonebook {
namespace {

PhonebookParams ParseParams(const Value& value, const std::string& where) {
  const PhonebookParams params = PhonebookFields().Parse(value, where);
  Validate(params, where);
  return params;
}

}  // namespace

const Fields<PhonebookParams>& PhonebookFields() {
  static const auto fields = [] {
    Fields<PhonebookParams> f;
    AddTextFields(f);
    f.Add("min_entries", &PhonebookParams::min_entries, "least number of entries of a book")
        .Add("max_entries", &PhonebookParams::max_entries, "largest number of entries of a book");
    return f;
  }();
  return fields;
}

void Validate(const PhonebookParams& p, const std::string& where) {
  constexpr std::int64_t kMaxEntries = 100000;
  const Rules rules("phonebook", where);
  CheckTextOptions(p, rules);
  rules.Must(p.min_entries >= 3, "min_entries must be >= 3", {{"min_entries", p.min_entries}});
  rules.Must(p.max_entries >= p.min_entries && p.max_entries <= kMaxEntries,
             "max_entries must be in [min_entries, 100000]",
             {{"max_entries", p.max_entries}, {"min_entries", p.min_entries}});
}

std::unique_ptr<Task> MakePhonebook(const PhonebookParams& params,
                                    std::shared_ptr<TextLibrary> library,
                                    const std::string& where) {
  auto tokenizer = library->tokenizer(params, where + "/tokenizer_file");
  auto task = std::make_unique<PhonebookTask>(params, std::move(library), std::move(tokenizer));
  CheckFits("phonebook", where, params.input_seq_len, task->MinInputSeqLen());
  return task;
}

void Register(TaskRegistry& registry) {
  TaskEntry entry;
  entry.summary = "the telephone number of a name that a book lists";
  entry.source = "Jelassi et al. 2024 (arXiv 2402.01032)";
  entry.params = PhonebookFields().Describe();
  entry.presentation_params = TextPresentationParams();
  entry.presets = {TextPreset("phonebook/jelassi", {PhonebookFields().Write({})}, 500,
                              "Jelassi et al.; 10 to 300 entries")};
  entry.deviations = {
      "Q37: names are distinct (reference: a name may occur twice and its number be ambiguous)",
      "names are an adjective and a noun, capitalised (reference: a package of personal names)"};
  auto library = std::make_shared<TextLibrary>();
  entry.create = [library](const Value& value, const std::string& where) {
    return MakePhonebook(ParseParams(value, where), library, where);
  };
  entry.resolve = [](const Value& value, const std::string& where) {
    return PhonebookFields().Write(ParseParams(value, where));
  };
  registry.Add("phonebook", std::move(entry));
}

}  // namespace mixerbench::tasks::phonebook
