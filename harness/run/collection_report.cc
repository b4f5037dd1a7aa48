// SPDX-License-Identifier: Apache-2.0
#include "harness/run/collection_report.h"

#include <vector>

#include "base/error.h"
#include "harness/run/collection_folder.h"
#include "harness/run/folder_report.h"
#include "harness/run/plan.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/render/html_page.h"
#include "reports/render/markdown_page.h"

namespace mixerbench::harness {

namespace fs = std::filesystem;

std::optional<reports::ScoreReport> ScoreOf(const fs::path& out) {
  const std::string file = (out / kCollectionFile).string();
  try {
    const Value collection = io::ParseJson(io::ReadFile(file, io::JsonLimits{}.max_bytes));
    const auto rule = reports::ReadScoreRule(collection);
    if (!rule) return std::nullopt;
    std::vector<reports::ScoreInput> inputs;
    for (const reports::ScorePart& part : rule->parts) {
      if (HoldsReport(out / part.suite)) {
        inputs.push_back({part.suite, ReadReport(out / part.suite)});
      }
    }
    return reports::MakeScoreReport(collection, *rule, inputs);
  } catch (const ConfigError& error) {
    throw Error(ExitCode::kBadInput, file + ": " + error.what());
  }
}

void WriteScore(const fs::path& out) {
  const FolderLock lock(out);
  const auto score = ScoreOf(out);
  if (!score) return;
  io::WriteFileAtomically((out / "score.json").string(),
                          io::DumpJson(reports::ScoreToValue(*score), 2));
  const reports::Page page = reports::MakeScorePage(*score);
  io::WriteFileAtomically((out / "score.md").string(), reports::RenderMarkdownPage(page));
  io::WriteFileAtomically((out / "score.html").string(), reports::RenderHtmlPage(page));
}

}  // namespace mixerbench::harness
