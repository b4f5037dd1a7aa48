// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "base/error.h"
#include "gate/verdict/settings.h"
#include "harness/cli/command.h"
#include "harness/cli/standard_input.h"
#include "harness/cli/values.h"

namespace mixerbench::harness::cli {
namespace {

struct CompareValues {
  CompareOptions options;
  std::vector<std::string> set;
  std::string fail_on;
};

void AddFiles(CLI::App* command, CompareOptions& options) {
  command->add_flag("-a,--all", options.all_rows, "also the rows that pass or are only shown");
  command->add_option("--verdict", options.json_file, "write the JSON here, with every look");
  command->add_option("--markdown", options.markdown_file, "write Markdown");
}

void AddBuilds(CLI::App* command, CompareOptions& options) {
  command->add_option("--base-program", options.base_program, "mixerbench of the base build");
  command->add_option("--new-program", options.candidate_program,
                      "mixerbench of the new build, default this one");
  auto* measure = command->add_option("--measure", options.measure,
                                      "time this suite's speed curves with both builds in turn");
  command->add_option("--pairs", options.pairs,
                      "folder of such measurements; without --measure those there are judged");
  command
      ->add_flag("--self", options.self, "both sides are one build: store the noise of this runner")
      ->excludes("--base-program")
      ->needs("--pairs");
  command
      ->add_flag("--top-up", options.top_up,
                 "run more seeds in both folders while a headline is inconclusive")
      ->needs("--base-program");
  command->add_option("--calibration", options.calibration,
                      "folder of the runners' noise, default in the user's cache");
  command
      ->add_option("--device", options.device,
                   "of measurements and added seeds: cpu, cuda[:i] or auto")
      ->envname("MIXERBENCH_DEVICE");
  measure->needs("--pairs");
}

// Builds that nothing is run with would look compared.
void RequireUseOfBuilds(const CompareOptions& options) {
  if (!options.measure.empty() || options.top_up) return;
  const bool is_base = !options.base_program.empty();
  if (!is_base && options.candidate_program.empty()) return;
  throw ConfigError(is_base ? "--base-program" : "--new-program",
                    "is run by --measure and by --top-up; without them folders are compared, "
                    "whichever build made them");
}

}  // namespace

void AddCompareCommand(const Parser& parser) {
  const auto values = std::make_shared<CompareValues>();
  CompareOptions& options = values->options;
  auto* command = parser.app.add_subcommand(
      "compare", "Regression gate: does NEW lose anything that BASE had?");
  command
      ->add_option("base", options.base,
                   "run folder or report.json of the base; - is standard input, here and below")
      ->required()
      ->transform(FileOrStandardInput());
  command->add_option("new", options.candidate, "the same of the candidate")
      ->required()
      ->transform(FileOrStandardInput());
  command->add_option("--gate", options.gate, "smoke, nightly, release, or a file of settings")
      ->transform(FileOrStandardInput())
      ->capture_default_str();
  AddSet(command, values->set, "setting of the gate, such as steps_margin=1.1");
  command->add_flag("--allow-missing", options.allow_missing,
                    "what is only in base is named and does not fail");
  command->add_option("--fail-on", values->fail_on,
                      "which of missing, empty, inconclusive and failed fail, separated by "
                      "commas; regressions always do");
  AddVerdictOutputs(command, options.outputs, "JSON on stdout in place of the table");
  AddFiles(command, options);
  AddBuilds(command, options);
  parser.WhenChosen(command, [values, command] {
    CompareOptions& chosen = values->options;
    chosen.set = ParseSettings(values->set);
    RequireUseOfBuilds(chosen);
    FindJobSummary(*command, chosen.outputs);
    chosen.fail_on_is_given = command->count("--fail-on") > 0;
    chosen.fail_on = ParseFailOn(values->fail_on, {"missing", "empty", "inconclusive", "failed"});
    return Compare(chosen);
  });
}

}  // namespace mixerbench::harness::cli
