// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "harness/cli/command.h"
#include "harness/cli/values.h"
#include "harness/dataset/dataset_files.h"

namespace mixerbench::harness::cli {
namespace {

// A number of 64 bits, which CLI11 would wrap or cut.
template <typename Number>
void AddUnsigned(CLI::App* command, const char* flag, Number& number, const char* help) {
  command
      ->add_option_function<std::string>(
          flag, [flag, &number](const std::string& text) { number = ParseUnsigned(text, flag); },
          help)
      ->type_name("NUMBER");
}

// What `generate` and its relatives write or check.
void AddSamples(CLI::App* command, DatasetOptions& samples, const char* what) {
  command->add_option("what", samples.what, what)->required();
  command->add_option("--split", samples.split, "train, validation, test or a number >= 16");
  AddUnsigned(command, "--seed", samples.seed, "default: the preset's, else 0");
  AddUnsigned(command, "--start", samples.start, "index of the first sample");
  command
      ->add_option("--count", samples.count,
                   "number of samples, default the preset's, 1 for a task")
      ->check(AtLeast(1));
}

CLI::Option* AddShards(CLI::App* command, std::int64_t& shards) {
  return command
      ->add_option("--shards", shards, "number of files, OUT-00000-of-0000N; changes no sample")
      ->check(Between(1, 99'999));
}

constexpr char kSetHelp[] = "option of the task, such as input_seq_len=128";

void AddGenerate(const Parser& parser) {
  struct Values {
    GenerateOptions options;
    std::vector<std::string> set;
  };
  const auto values = std::make_shared<Values>();
  GenerateOptions& options = values->options;
  auto* command = parser.app.add_subcommand("generate", "Write samples of a task or preset");
  AddSamples(command, options.samples, "task (mqar) or preset (mqar/fig2-64x4)");
  AddSet(command, values->set, kSetHelp);
  command
      ->add_option("--labels", options.samples.labels,
                   "which positions carry a label; default scored, in the training split of a "
                   "preset those that it is trained on")
      ->check(CLI::IsMember({"scored", "all_tokens", "target_only"}));
  command
      ->add_option("--format", options.format,
                   "jsonl, npy or safetensors; default by the name of the file")
      ->check(CLI::IsMember({"jsonl", "npy", "safetensors"}));
  command->add_option("--dtype", options.dtype, "of npy and safetensors: int32 or int64")
      ->check(CLI::IsMember({"int32", "int64"}));
  auto* out = command->add_option("-o,--out", options.out, "file; default stdout (jsonl)");
  AddShards(command, options.shards)->needs(out);
  command->add_option("--device", options.device, "cpu or cuda[:i]");
  parser.WhenChosen(command, [values, &engine = parser.engine] {
    GenerateOptions& chosen = values->options;
    chosen.samples.set = ParseSettings(values->set);
    if (chosen.device != "cpu") return engine.generate_on_device(chosen);
    return Generate(chosen, CpuGenerator(NumThreads(0)));
  });
}

void AddExport(const Parser& parser) {
  struct Values {
    ExportOptions options;
    std::vector<std::string> set;
  };
  const auto values = std::make_shared<Values>();
  ExportOptions& options = values->options;
  auto* command =
      parser.app.add_subcommand("export", "Write the prompts of a text task as JSON lines");
  AddSamples(command, options.samples, "text task (niah) or preset (niah/s1)");
  AddSet(command, values->set, kSetHelp);
  auto* out = command->add_option("-o,--out", options.out, "file; default stdout");
  AddShards(command, options.shards)->needs(out);
  parser.WhenChosen(command, [values] {
    values->options.samples.set = ParseSettings(values->set);
    return Export(values->options);
  });
}

void AddScore(const Parser& parser) {
  const auto options = std::make_shared<ScoreOptions>();
  auto* command = parser.app.add_subcommand("score", "Score responses of a model to an export");
  command
      ->add_option("predictions", options->predictions,
                   "JSON lines with index and pred; several files are runs")
      ->required();
  command
      ->add_option("--references", options->references,
                   "the export or its manifest, one for all runs or each")
      ->required();
  command->add_option("--against", options->against,
                      "predictions of another variant on the same samples");
  command->add_option("--by", options->by, "member of meta to group by, such as depth");
  command->add_flag("--allow-missing", options->allow_missing,
                    "a sample without a prediction is wrong, not an error");
  command->add_flag("--json", options->json, "JSON on stdout");
  parser.WhenChosen(command, [options] { return ScorePredictions(*options); });
}

void AddVerify(const Parser& parser) {
  struct Values {
    VerifyOptions options;
    std::vector<std::string> set;
  };
  const auto values = std::make_shared<Values>();
  VerifyOptions& options = values->options;
  auto* command =
      parser.app.add_subcommand("verify", "Make a data set again and compare; check its answers");
  command->add_option("what", options.what, "manifest, file beside one, task or preset")
      ->required();
  AddSet(command, values->set, kSetHelp);
  AddUnsigned(command, "--seed", options.seed, "default: the preset's, else 0");
  command
      ->add_option("--count", options.count,
                   "samples of each data set, default at most 10000; not for files")
      ->check(AtLeast(1));
  command->add_option("--threads", options.threads, "default one per core; changes no result")
      ->check(Between(1, 1024));
  command->add_flag("--json", options.json, "JSON on stdout");
  parser.WhenChosen(command, [values] {
    values->options.set = ParseSettings(values->set);
    return Verify(values->options);
  });
}

}  // namespace

void AddSampleCommands(const Parser& parser) {
  AddGenerate(parser);
  AddVerify(parser);
  AddExport(parser);
  AddScore(parser);
}

}  // namespace mixerbench::harness::cli
