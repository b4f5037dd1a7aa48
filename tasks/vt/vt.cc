// SPDX-License-Identifier: Apache-2.0
#include "tasks/vt/vt.h"

#include <vector>

#include "tasks/rules.h"
#include "tasks/text/text_presets.h"
#include "tasks/vt/vt_task.h"

namespace mixerbench::tasks::vt {
namespace {

VtParams ParseParams(const Value& value, const std::string& where) {
  const VtParams params = VtFields().Parse(value, where);
  Validate(params, where);
  return params;
}

std::vector<Preset> Presets() {
  std::vector<Value> points;
  for (const std::int64_t length : RulerLengths()) {
    points.push_back(VtFields().Write(
        VtFields().Parse(Object{{"input_seq_len", length}, {"example", true}}, "")));
  }
  return {TextPreset("ruler/11/vt", points, 500, "RULER without QA")};
}

}  // namespace

const Fields<VtParams>& VtFields() {
  static const auto fields = [] {
    Fields<VtParams> f;
    AddTextFields(f);
    f.Add("type_haystack", &VtParams::type_haystack,
          "noise: one line repeated; kjv: the King James Bible (kjv_train, kjv_test: disjoint "
          "chapters of it); file: haystack_file");
    AddHaystackFields(f);
    f.Add("num_chains", &VtParams::num_chains, "chains of assignments; one is asked for")
        .Add("num_hops", &VtParams::num_hops, "assignments after the first of a chain")
        .Add("example", &VtParams::example, "begin with a short solved question");
    return f;
  }();
  return fields;
}

void Validate(const VtParams& p, const std::string& where) {
  // Names whose draws are set apart (vt_chains.cc), and points of the depth grid.
  constexpr std::int64_t kMaxStatements = 64, kMaxDepths = 40;
  const Rules rules("vt", where);
  CheckTextOptions(p, rules);
  CheckHaystackOptions(p.haystack(), p, rules);
  rules.Must(p.num_chains >= 1 && p.num_chains <= kMaxStatements, "num_chains must be in [1, 64]",
             {{"num_chains", p.num_chains}});
  rules.Must(p.num_hops >= 0 && p.num_hops < kMaxStatements, "num_hops must be in [0, 63]",
             {{"num_hops", p.num_hops}});
  const std::int64_t num_statements = p.num_chains * (p.num_hops + 1);
  rules.Must(num_statements <= kMaxStatements, "num_chains * (num_hops + 1) must be <= 64",
             {{"num_chains", p.num_chains}, {"num_hops", p.num_hops}});
  rules.Must(p.type_haystack == VtHaystack::kNoise || num_statements <= kMaxDepths,
             "num_chains * (num_hops + 1) must be <= 40 in running text",
             {{"num_chains", p.num_chains}, {"num_hops", p.num_hops}});
}

std::unique_ptr<Task> MakeVt(const VtParams& params, std::shared_ptr<TextLibrary> library,
                             const std::string& where) {
  auto haystack =
      FindHaystack(params.haystack(), params.haystack_file, *library, where + "/haystack_file");
  auto tokenizer = library->tokenizer(params, where + "/tokenizer_file");
  auto task = std::make_unique<VtTask>(params, std::move(library), std::move(haystack),
                                       std::move(tokenizer));
  CheckFits("vt", where, params.input_seq_len, task->MinInputSeqLen());
  if (params.type_haystack == VtHaystack::kFile) task->CheckHaystack(where + "/haystack_file");
  return task;
}

void Register(TaskRegistry& registry) {
  TaskEntry entry;
  entry.summary = "variable tracking: which variables have a value, through chains of assignments";
  entry.source = "Hsieh et al. 2024 (RULER, arXiv 2404.06654)";
  entry.aliases = {"variable_tracking"};
  entry.params = VtFields().Describe();
  entry.presentation_params = TextPresentationParams();
  for (const char* name : {"haystack_mode", "haystack_seed", "example"}) {
    entry.presentation_params.emplace_back(name);
  }
  entry.presets = Presets();
  entry.deviations = {
      "Q34: values are 10000..99999 (reference: 99999 cannot occur)",
      "Q35: names that collide are drawn again (reference: chains may break)",
      "chains have different values (reference: two may share one, and the answer is incomplete)",
      "the example of every sample is drawn anew (reference: its names alone), and one empty line "
      "ends it (reference: three, and two spaces before its answer)"};
  auto library = std::make_shared<TextLibrary>();
  entry.create = [library](const Value& value, const std::string& where) {
    return MakeVt(ParseParams(value, where), library, where);
  };
  entry.resolve = [](const Value& value, const std::string& where) {
    return VtFields().Write(ParseParams(value, where));
  };
  registry.Add("vt", std::move(entry));
}

}  // namespace mixerbench::tasks::vt
