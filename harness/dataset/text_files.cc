// SPDX-License-Identifier: Apache-2.0
#include "harness/dataset/text_files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace mixerbench::harness {
namespace {

using tasks::AnswerType;

// A prompt of a million tokens is some MiB.
constexpr io::JsonLimits kLineLimits = {
    .max_bytes = std::size_t{256} << 20, .max_depth = 32, .max_nodes = 4'000'000};

Array StringArray(const std::vector<std::string>& texts) {
  return Array(texts.begin(), texts.end());
}

[[noreturn]] void Refuse(const std::string& where, const std::string& fault) {
  throw Error(ExitCode::kBadInput, where + ": " + fault);
}

// Calls read(row, where) for every line that is not empty.
template <typename Read>
void ForEachLine(std::string_view text, const std::string& path, const Read& read) {
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::string where = path + ": line " + std::to_string(line);
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.find_first_not_of(" \t\r") == row.npos) continue;
    Value value;
    try {
      value = io::ParseJson(row, kLineLimits);
    } catch (const ConfigError& error) {
      Refuse(where, error.what());
    }
    if (!value.is_object()) Refuse(where, "is not an object");
    read(value, where);
  }
}

std::int64_t ReadIndex(const Value& row, const std::string& where) {
  const Value* index = row.Find("index");
  if (index == nullptr) {
    if (const Value* doc = row.Find("doc")) index = doc->Find("index");
  }
  if (index == nullptr || !index->is_int()) Refuse(where, "has no index");
  return index->as_int();
}

// A list of strings, or nothing when the member is missing or null.
std::vector<std::string> ReadStrings(const Value& row, std::string_view key,
                                     const std::string& where) {
  const Value* list = row.Find(key);
  if (list == nullptr || list->is_null()) return {};
  if (!list->is_array()) Refuse(where, std::string(key) + " is no list");
  std::vector<std::string> texts;
  for (const Value& item : list->as_array()) {
    if (!item.is_string()) Refuse(where, std::string(key) + " holds something that is no string");
    texts.push_back(item.as_string());
  }
  return texts;
}

// The type of an answer that says nothing about itself.
AnswerType GuessType(const std::string& answer) {
  const auto only = [&](std::string_view allowed) {
    return answer.find_first_not_of(allowed) == answer.npos;
  };
  if (only("0123456789")) return AnswerType::kNumber;
  if (answer.size() == 36 && only("0123456789abcdefABCDEF-")) return AnswerType::kUuid;
  if (only("ABCDEFGHIJKLMNOPQRSTUVWXYZ")) return AnswerType::kName;
  return AnswerType::kWord;
}

AnswerType ReadType(const Value& row, const tasks::References& outputs, const std::string& where) {
  const Value* type = row.Find("answer_type");
  if (type == nullptr) return GuessType(outputs.front());
  for (const auto& [known, name] : EnumNames<AnswerType>::kNames) {
    if (type->is_string() && type->as_string() == name) return known;
  }
  Refuse(where, "answer_type is none of number, word, uuid, name");
}

std::vector<tasks::TokenLikelihood> ReadLikelihood(const Value& row, const std::string& where) {
  const Value* log_probs = row.Find("token_log_probs");
  if (log_probs == nullptr) return {};
  const Value* greedy = row.Find("token_is_greedy");
  if (greedy == nullptr || !log_probs->is_array() || !greedy->is_array() ||
      log_probs->as_array().empty() || log_probs->as_array().size() != greedy->as_array().size()) {
    Refuse(where, "token_log_probs and token_is_greedy are no lists of one length");
  }
  std::vector<tasks::TokenLikelihood> tokens;
  for (std::size_t i = 0; i < log_probs->as_array().size(); ++i) {
    const Value& log_prob = log_probs->as_array()[i];
    const Value& is_greedy = greedy->as_array()[i];
    if (!log_prob.is_number() || !is_greedy.is_bool() || log_prob.as_double() > 0) {
      Refuse(where, "expected logarithms of probabilities, and true or false");
    }
    tokens.push_back({log_prob.as_double(), is_greedy.as_bool()});
  }
  return tokens;
}

std::string ReadResponse(const Value& row, const std::string& where) {
  if (const Value* pred = row.Find("pred")) {
    if (!pred->is_string()) Refuse(where, "pred is no string");
    return pred->as_string();
  }
  const auto responses = ReadStrings(row, "filtered_resps", where);
  if (responses.empty()) Refuse(where, "has neither pred nor filtered_resps nor token_log_probs");
  return responses.front();
}

}  // namespace

std::string TextLine(const tasks::TextTask& task, std::uint64_t index,
                     const tasks::PromptRecord& record) {
  const Object row = {
      {"index", static_cast<std::int64_t>(index)},
      {"input", record.prompt},
      {"answer_prefix", record.answer_prefix},
      {"outputs", StringArray(record.references)},
      {"length", record.prompt_tokens + record.max_new_tokens},
      {"max_length", task.shape().seq_len},
      {"prompt_tokens", record.prompt_tokens},
      {"max_new_tokens", record.max_new_tokens},
      {"answer", record.answer},
      {"answer_type", std::string(NameOf(task.answer_type()))},
      {"distractors", StringArray(record.distractors)},
      {"metrics", StringArray(task.metrics())},
      {"meta", record.metadata},
  };
  return io::DumpJson(row) + "\n";
}

FileMaker TextFileMaker(const Dataset& dataset, int num_threads) {
  for (const DatasetPart& part : dataset.parts) {
    if (part.task->text() != nullptr) continue;
    throw ConfigError("",
                      "'" + dataset.task_name + "' has no text form; `generate` writes its tokens");
  }
  return [&dataset, num_threads](const DatasetPart& part, std::uint64_t first, std::int64_t count,
                                 const io::PutBytes& put, Sha256& stream) {
    constexpr std::int64_t kLinesPerThread = 8;  // a line may be some MiB
    const tasks::TextTask& task = *part.task->text();
    const tasks::PhiloxKey key = dataset.Key(part);
    std::uint64_t offset = 0;
    for (std::int64_t done = 0; done < count; done += num_threads * kLinesPerThread) {
      const std::int64_t num_lines =
          std::min<std::int64_t>(num_threads * kLinesPerThread, count - done);
      std::vector<std::string> lines(static_cast<std::size_t>(num_lines));
      const auto make = [&](std::int64_t thread) {
        for (std::int64_t i = thread; i < num_lines; i += num_threads) {
          const std::uint64_t sample = first + static_cast<std::uint64_t>(done + i);
          lines[static_cast<std::size_t>(i)] = TextLine(
              task, part.first_index + (sample - part.first), task.MakePrompt({key, sample}));
        }
      };
      {
        std::vector<std::jthread> threads;
        for (int thread = 1; thread < num_threads; ++thread) threads.emplace_back(make, thread);
        make(0);
      }
      for (const std::string& line : lines) {
        put(offset, line);
        stream.Update(line);
        offset += line.size();
      }
    }
  };
}

FileMaker MakerOf(const Dataset& dataset, const io::DatasetManifest& manifest,
                  const std::string& path, const tasks::BatchGenerator& generate, int num_threads) {
  if (manifest.format == kTextFormat) {
    try {
      return TextFileMaker(dataset, num_threads);
    } catch (const ConfigError& error) {
      Refuse(path + ": /format", error.what());
    }
  }
  for (const auto& [format, format_name] : EnumNames<io::SampleFormat>::kNames) {
    for (const io::ElementType dtype : {io::ElementType::kI32, io::ElementType::kI64}) {
      if (format_name == manifest.format && NameOf(dtype) == manifest.dtype) {
        return TokenFileMaker(dataset, format, dtype, generate, num_threads);
      }
    }
  }
  Refuse(path, "unknown format '" + manifest.format.substr(0, 40) + "' of '" +
                   manifest.dtype.substr(0, 40) + "'");
}

std::vector<Reference> ReadReferences(std::string_view text, const std::string& path) {
  std::vector<Reference> references;
  std::set<std::int64_t> indices;
  ForEachLine(text, path, [&](const Value& row, const std::string& where) {
    Reference reference{.index = ReadIndex(row, where),
                        .outputs = ReadStrings(row, "outputs", where),
                        .distractors = ReadStrings(row, "distractors", where),
                        .metrics = ReadStrings(row, "metrics", where)};
    if (reference.outputs.empty()) Refuse(where, "has no outputs");
    if (!indices.insert(reference.index).second) Refuse(where, "has the index of another line");
    reference.answer_type = ReadType(row, reference.outputs, where);
    if (const Value* meta = row.Find("meta"); meta != nullptr && meta->is_object()) {
      reference.meta = meta->as_object();
    }
    if (const Value* max_length = row.Find("max_length"))
      reference.meta["max_length"] = *max_length;
    references.push_back(std::move(reference));
  });
  return references;
}

std::vector<Reference> ReadReferencesOf(const std::string& path) {
  if (!path.ends_with(kManifestSuffix)) return ReadReferences(io::ReadFile(path), path);
  const auto manifest = io::ParseManifest(io::ReadFile(path), path);
  if (manifest.format != kTextFormat) {
    Refuse(path, "is of tokens; responses are scored against what `export` writes");
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::vector<Reference> references;
  std::set<std::int64_t> indices;
  for (const io::DatasetPart& part : manifest.parts) {
    for (const io::DatasetFile& file : part.files) {
      const std::string name = (folder / file.name).string();
      for (Reference& reference : ReadReferences(io::ReadFile(name), name)) {
        if (!indices.insert(reference.index).second) {
          Refuse(name, "index " + std::to_string(reference.index) +
                           " stands in another part too; export the set again");
        }
        reference.meta["part"] = part.name;
        references.push_back(std::move(reference));
      }
    }
  }
  return references;
}

std::vector<Prediction> ReadPredictions(std::string_view text, const std::string& path) {
  std::vector<Prediction> predictions;
  std::set<std::int64_t> indices;
  ForEachLine(text, path, [&](const Value& row, const std::string& where) {
    Prediction prediction{.index = ReadIndex(row, where), .likelihood = ReadLikelihood(row, where)};
    if (!indices.insert(prediction.index).second) Refuse(where, "has the index of another line");
    if (prediction.likelihood.empty() || row.Find("pred") != nullptr) {
      prediction.response = ReadResponse(row, where);
    }
    predictions.push_back(std::move(prediction));
  });
  return predictions;
}

}  // namespace mixerbench::harness
