// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "gate/verdict/settings.h"
#include "harness/cli/command.h"
#include "harness/cli/values.h"

namespace mixerbench::harness::cli {
namespace {

struct CompareValues {
  CompareOptions options;
  std::vector<std::string> set;
  std::string fail_on;
};

void AddOutputs(CLI::App* command, CompareOptions& options) {
  command->add_flag("--json", options.json, "JSON on stdout in place of the table");
  command->add_flag("-a,--all", options.all_rows, "also the rows that pass or are only shown");
  command->add_option("--verdict", options.json_file, "write the JSON here, with every look");
  command->add_option("--markdown", options.markdown_file, "write Markdown");
  command->add_option("--html", options.html_file, "write a page");
  command->add_option("--junit", options.junit_file, "write JUnit XML");
  command
      ->add_option("--github-summary", options.github_summary,
                   "append to a job summary, default $GITHUB_STEP_SUMMARY; annotates the job")
      ->expected(0, 1)
      ->type_name("[FILE]");
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
      ->excludes("--base-program");
  command
      ->add_flag("--top-up", options.top_up,
                 "run more seeds in both folders while a headline is inconclusive")
      ->needs("--base-program");
  command->add_option("--calibration", options.calibration,
                      "folder of the runners' noise, default in the user's cache");
  command->add_option("--device", options.device, "of measurements: cpu, cuda[:i] or auto")
      ->envname("MIXERBENCH_DEVICE");
  measure->needs("--pairs");
}

}  // namespace

void AddCompareCommand(const Parser& parser) {
  const auto values = std::make_shared<CompareValues>();
  CompareOptions& options = values->options;
  auto* command = parser.app.add_subcommand(
      "compare", "Regression gate: does NEW lose anything that BASE had?");
  command->add_option("base", options.base, "run folder or report.json of the base")->required();
  command->add_option("new", options.candidate, "the same of the candidate")->required();
  command->add_option("--gate", options.gate, "smoke, nightly, release, or a file of settings")
      ->capture_default_str();
  AddSet(command, values->set, "setting of the gate, such as steps_margin=1.1");
  command->add_flag("--allow-missing", options.allow_missing,
                    "what is only in base is named and does not fail");
  command->add_option("--fail-on", values->fail_on,
                      "which of missing, empty, inconclusive and failed fail, separated by "
                      "commas; regressions always do");
  AddOutputs(command, options);
  AddBuilds(command, options);
  parser.WhenChosen(command, [values, command] {
    CompareOptions& chosen = values->options;
    chosen.set = ParseSettings(values->set);
    chosen.wants_github_summary = command->count("--github-summary") > 0;
    chosen.fail_on_is_given = command->count("--fail-on") > 0;
    chosen.fail_on = ParseNames(values->fail_on);
    return Compare(chosen);
  });
}

}  // namespace mixerbench::harness::cli
