// SPDX-License-Identifier: Apache-2.0
#include "tasks/vt/vt_task.h"

#include <algorithm>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/text/depth_grid.h"
#include "tasks/text/haystack_fill.h"
#include "tasks/text/noise_text.h"
#include "tasks/text/pick_vector.h"

namespace mixerbench::tasks::vt {
namespace {

constexpr ChainDraw kDraw = {.name_stream = 32, .value_stream = 33, .letters = 5};
constexpr std::uint32_t kDepthStream = 34, kInterleaveStream = 35, kPositionStream = 36;
constexpr ChainDraw kExampleDraw = {.name_stream = 37, .value_stream = 38, .letters = 3};
constexpr std::uint32_t kExamplePositionStream = 39;
// The draws of one chain's positions lie so far apart.
constexpr std::uint32_t kPositionStride = 4096;
constexpr std::int64_t kReferenceGenTokens = 30;
constexpr std::int64_t kExampleTokens = 500;

constexpr std::string_view kHead =
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n";
constexpr std::string_view kQuestionBegin =
    "\nQuestion: Find all variables that are assigned the value ";
constexpr std::string_view kQuestionEnd = " in the text above.";

std::string QuestionText(const Chain& chain) {
  return std::string(kQuestionBegin) + chain.value + std::string(kQuestionEnd);
}

std::string AnswerPrefix(const Chain& chain) {
  return " Answer: According to the chain(s) of variable assignment in the text above, " +
         std::to_string(chain.names.size()) + " variables are assigned the value " + chain.value +
         ", they are: ";
}

std::string Spaced(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

// RULER ends the copies, not the first assignment, with a space where statements are lines.
std::vector<std::string> StatementLines(const Chain& chain) {
  std::vector<std::string> lines = chain.Statements();
  for (std::size_t j = 1; j < lines.size(); ++j) lines[j] += ' ';
  return lines;
}

}  // namespace

VtTask::VtTask(const VtParams& params, std::shared_ptr<TextLibrary> library,
               std::shared_ptr<const Haystack> haystack, std::shared_ptr<const Tokenizer> tokenizer)
    : ComposedTask(params, std::move(tokenizer), kReferenceGenTokens),
      params_(params),
      library_(std::move(library)),
      haystack_(std::move(haystack)),
      noise_(kNoiseLine, '\n', this->tokenizer()) {}

std::string VtTask::canon() const {
  return Canon("vt")
      .Word("haystack", haystack_ ? haystack_->name() : "noise")
      .Integer("num_chains", params_.num_chains)
      .Integer("num_hops", params_.num_hops)
      .Text();
}

std::int64_t VtTask::AddLines(const SampleStream& stream, const std::vector<Chain>& chains,
                              std::uint32_t position_stream, std::int64_t budget,
                              Draft& draft) const {
  // The first line has no newline before it, whichever it is.
  const std::int64_t first = noise_.num_tokens(0, false) - noise_.num_tokens(0, true);
  std::int64_t used = first;
  std::int64_t longest_chain = 0;
  for (const Chain& chain : chains) {
    for (const std::string& line : StatementLines(chain)) {
      used += CountTokens(tokenizer(), "\n" + line);
    }
    longest_chain = std::max(longest_chain, std::ssize(chain.names));
  }
  const std::int64_t num_lines =
      std::max<std::int64_t>(0, budget - used) / noise_.num_tokens(0, true);
  Require(num_lines >= longest_chain, "as many lines as statements fit");

  std::vector<std::string> lines(static_cast<std::size_t>(num_lines));  // empty: noise
  for (std::size_t c = 0; c < chains.size(); ++c) {
    const std::vector<std::string> statements = StatementLines(chains[c]);
    std::vector<std::uint32_t> positions =
        PickVector(stream, position_stream, static_cast<std::uint32_t>(lines.size()),
                   static_cast<std::uint32_t>(statements.size()),
                   kPositionStride * static_cast<std::uint32_t>(c));
    std::sort(positions.begin(), positions.end());
    for (std::size_t j = 0; j < statements.size(); ++j) {
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(positions[j] + j), statements[j]);
    }
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) {
      draft.AddUnit(noise_, 0, i > 0);
    } else {
      draft.AddText((i > 0 ? "\n" : "") + lines[i]);
    }
  }
  return num_lines;
}

std::int64_t VtTask::AddSentences(const SampleStream& stream, const std::vector<Chain>& chains,
                                  std::int64_t budget, Draft& draft) const {
  // Chains in random turns, each in its own order.
  std::vector<std::size_t> turns;
  for (std::size_t c = 0; c < chains.size(); ++c)
    turns.insert(turns.end(), chains[c].names.size(), c);
  const auto total = static_cast<std::uint32_t>(turns.size());
  std::vector<std::size_t> next(chains.size());
  std::vector<std::string> statements;
  for (const std::uint32_t turn : PickVector(stream, kInterleaveStream, total, total)) {
    const std::size_t c = turns[turn];
    statements.push_back(chains[c].Statements()[next[c]++] + ".");
  }
  std::vector<std::uint32_t> depths = PickVector(stream, kDepthStream, kNumGridDepths, total);
  std::sort(depths.begin(), depths.end());
  const auto before = [&](std::size_t j, std::int64_t num_units) {
    return num_units * GridDepth(depths[j]) / 100;
  };

  const auto sentences = library_->sentences(*haystack_, tokenizer());
  std::int64_t used = 0;
  for (const std::string& statement : statements) {
    used += CountTokens(tokenizer(), " " + statement);
  }
  const std::int64_t first_statement = CountTokens(tokenizer(), statements.front()) -
                                       CountTokens(tokenizer(), " " + statements.front());
  constexpr std::int64_t kTypicalSentence = 30;  // tokens; more or less only costs time
  SentenceOrder order(*haystack_, params_.haystack_mode,
                      static_cast<std::uint64_t>(params_.haystack_seed), stream,
                      budget / kTypicalSentence + 1);
  const std::int64_t first_sentence =
      sentences->num_tokens(order[0], false) - sentences->num_tokens(order[0], true);
  std::int64_t num_units = 0;
  for (;; ++num_units) {
    const std::int64_t joined = sentences->num_tokens(order[num_units], true);
    const std::int64_t first = before(0, num_units + 1) == 0 ? first_statement : first_sentence;
    if (used + joined + first > budget) break;
    used += joined;
  }

  bool is_joined = false;
  std::size_t j = 0;
  for (std::int64_t m = 0; m <= num_units; ++m) {
    for (; j < statements.size() && before(j, num_units) == m; ++j) {
      draft.AddText((is_joined ? " " : "") + statements[j]);
      is_joined = true;
    }
    if (m == num_units) break;
    draft.AddUnit(*sentences, order[m], is_joined);
    is_joined = true;
  }
  return num_units;
}

std::string VtTask::Example(const SampleStream& stream) const {
  const Chain chain = DrawChains(stream, kExampleDraw, 1, params_.num_hops).front();
  const std::string tail = QuestionText(chain) + AnswerPrefix(chain) + Spaced(chain.names);
  // However long the chain is, there is room for a line of noise to each statement.
  std::int64_t least = 0;
  for (const std::string& line : StatementLines(chain)) {
    least += CountTokens(tokenizer(), "\n" + line) + noise_.num_tokens(0, true);
  }
  const std::int64_t room =
      kExampleTokens - CountTokens(tokenizer(), kHead) - CountTokens(tokenizer(), tail);
  Draft draft;
  draft.AddText(kHead);
  AddLines(stream, {chain}, kExamplePositionStream, std::max(room, least), draft);
  draft.AddText(tail + "\n\n");
  return draft.Text();
}

Composition VtTask::Compose(const SampleStream& stream) const {
  const std::vector<Chain> chains = DrawChains(stream, kDraw, params_.num_chains, params_.num_hops);
  const Chain& asked = chains.front();
  Composition composed;
  composed.answer_prefix = AnswerPrefix(asked);
  composed.answer = Spaced(asked.names);
  composed.references = asked.names;
  for (std::size_t c = 1; c < chains.size(); ++c) {
    composed.distractors.insert(composed.distractors.end(), chains[c].names.begin(),
                                chains[c].names.end());
  }
  const std::string head = (params_.example ? Example(stream) : "") + std::string(kHead);
  const std::string question = QuestionText(asked);
  const std::int64_t budget = prompt_budget(composed.answer) - (params_.bos ? 1 : 0) -
                              CountTokensAtStart(tokenizer(), head) -
                              CountTokens(tokenizer(), question + composed.answer_prefix);
  composed.prompt.AddText(head);
  const std::int64_t num_units =
      haystack_ ? AddSentences(stream, chains, budget, composed.prompt)
                : AddLines(stream, chains, kPositionStream, budget, composed.prompt);
  composed.prompt.AddText(question);
  composed.metadata = {{"query", asked.value}, {"num_units", num_units}};
  return composed;
}

std::string VtTask::DrawAnswer(const SampleStream& stream) const {
  return Spaced(DrawChains(stream, kDraw, params_.num_chains, params_.num_hops).front().names);
}

std::string VtTask::Answer(std::string_view prompt) const {
  const std::size_t context = prompt.rfind(kHead);
  const std::size_t question = prompt.rfind(kQuestionBegin);
  if (context == std::string_view::npos || question == std::string_view::npos) return "";
  const std::size_t begin = question + kQuestionBegin.size();
  const std::string_view value = prompt.substr(begin, prompt.find(' ', begin) - begin);
  return Spaced(FindVariables(prompt.substr(context, question - context), value));
}

std::int64_t VtTask::max_answer_bytes() const {
  return (params_.num_hops + 1) * (std::int64_t{kDraw.letters} + 1) - 1;
}

std::int64_t VtTask::MinInputSeqLen() const {
  // Names and values by their bytes, the most tokens they can be.
  constexpr std::int64_t kName = 5, kValue = 5;
  const std::int64_t num_statements = params_.num_chains * (params_.num_hops + 1);
  const std::int64_t statement = CountTokens(tokenizer(), "\nVAR = VAR .") + 1 + 2 * kName;
  const std::int64_t lines = haystack_ ? 0 : (params_.num_hops + 1) * noise_.num_tokens(0, true);
  const Chain chain{"1", std::vector<std::string>(static_cast<std::size_t>(params_.num_hops + 1))};
  const std::int64_t question =
      CountTokens(tokenizer(), QuestionText(chain) + AnswerPrefix(chain)) + 2 * kValue;
  std::int64_t example = 0;
  if (params_.example) {
    const std::int64_t least = (params_.num_hops + 1) * (statement + noise_.num_tokens(0, true));
    example = std::max(kExampleTokens,
                       CountTokens(tokenizer(), kHead) + question + least + max_answer_bytes()) +
              2;
  }
  return (params_.bos ? 1 : 0) + CountTokensAtStart(tokenizer(), kHead) + example + question +
         num_statements * statement + lines + max_new_tokens_bound();
}

void VtTask::CheckHaystack(const std::string& where) const {
  CheckFill(*library_->sentences(*haystack_, tokenizer()), HaystackRoom(), where);
}

std::vector<std::string> VtTask::warnings() const {
  if (!haystack_) return {};
  return FillWarnings(*library_->sentences(*haystack_, tokenizer()), HaystackRoom(),
                      params_.haystack_file.empty() ? haystack_->name() : params_.haystack_file);
}

}  // namespace mixerbench::tasks::vt
