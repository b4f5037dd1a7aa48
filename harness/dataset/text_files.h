// Text tasks as files that other evaluation programs read, and what those programs write.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/dataset/dataset_files.h"
#include "tasks/scoring/answer_scores.h"
#include "tasks/text/text_task.h"

namespace mixerbench::harness {

// The manifest's format of text files.
inline constexpr const char* kTextFormat = "text";

// Lines of text samples. The canonical stream is the lines. Throws ConfigError when a part is no
// text task. The arguments must outlive the maker.
FileMaker TextFileMaker(const Dataset& dataset, int num_threads);

// The maker that a manifest's format asks for. Errors: Error(kBadInput) naming `path`.
FileMaker MakerOf(const Dataset& dataset, const io::DatasetManifest& manifest,
                  const std::string& path, const tasks::BatchGenerator& generate, int num_threads);

// One line of an export: `index`, `input`, `outputs`, `length` and `answer_prefix` are RULER's, and
// `max_length` is lm-evaluation-harness's; a model reads input + answer_prefix. The others are
// ours.
std::string TextLine(const tasks::TextTask& task, std::uint64_t index,
                     const tasks::PromptRecord& record);

// What of an export is needed to score responses to it.
struct Reference {
  std::int64_t index = 0;
  tasks::References outputs;
  std::vector<std::string> distractors = {};
  tasks::AnswerType answer_type = tasks::AnswerType::kNumber;
  std::vector<std::string> metrics = {};  // that fit the task, the usual one first
  Object meta = {};
};

// Reads an export, or RULER's own files: what those lack stays empty, and the type of answer is
// taken from the first reference. `max_length` joins the meta. Errors: Error(kBadInput) naming the
// line.
std::vector<Reference> ReadReferences(std::string_view text, const std::string& path);

// Reads a file as above, or all files of a manifest, with the name of their part in the meta.
std::vector<Reference> ReadReferencesOf(const std::string& path);

// A model's response to one sample, as text or as the likelihood of the answer.
struct Prediction {
  std::int64_t index = 0;
  std::string response = {};
  std::vector<tasks::TokenLikelihood> likelihood = {};
};

// Reads {"index", "pred"} (RULER), {"index", "token_log_probs", "token_is_greedy"}, or the samples
// that lm-evaluation-harness logs ({"doc": {"index"}, "filtered_resps"}). Errors: as above; an
// index that occurs twice is one.
std::vector<Prediction> ReadPredictions(std::string_view text, const std::string& path);

}  // namespace mixerbench::harness
