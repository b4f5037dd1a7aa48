// SPDX-License-Identifier: Apache-2.0
#include "tasks/fwe/fwe_task.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "base/check.h"
#include "tasks/canon.h"
#include "tasks/fwe/zeta.h"
#include "tasks/text/lists.h"
#include "tasks/text/pick_vector.h"

namespace mixerbench::tasks::fwe {
namespace {

constexpr std::uint32_t kWordStream = 44, kOrderStream = 45;
// Redraws of one word lie so far apart.
constexpr std::uint32_t kStride = 1u << 20;
constexpr std::int64_t kReferenceGenTokens = 50;
constexpr std::int64_t kLetters = 6;
// The vocabulary has one word for so many tokens of prompt.
constexpr std::int64_t kTokensPerWord = 50;
constexpr std::string_view kNoise = "...";               // in place of the most frequent word
constexpr std::int64_t kFirstAsked = 2, kLastAsked = 4;  // ranks

constexpr std::string_view kHead =
    "Read the following coded text and track the frequency of each coded word. Find the three most "
    "frequently appeared coded words.";
constexpr std::string_view kQuestion =
    "\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the three "
    "most frequently appeared words in the above coded text?";
constexpr std::string_view kAnswerPrefix =
    " Answer: According to the coded text above, the three most frequently appeared words are:";

// The words of ranks 1, 2, ...: all different, the first one noise.
class RankedWords {
 public:
  explicit RankedWords(const SampleStream& sample) : sample_(sample), words_{std::string(kNoise)} {}

  const std::string& operator[](std::int64_t rank) {
    while (std::ssize(words_) < rank) {
      std::uint32_t e = static_cast<std::uint32_t>(words_.size());
      std::string word = Draw(e);
      while (!taken_.insert(word).second) word = Draw(e += kStride);
      words_.push_back(std::move(word));
    }
    return words_[static_cast<std::size_t>(rank - 1)];
  }

 private:
  std::string Draw(std::uint32_t e) const {
    constexpr auto kLength = static_cast<std::uint32_t>(kLetters);
    std::string word;
    for (std::uint32_t c = 0; c < kLength; ++c) {
      word += static_cast<char>('a' + Uniform(sample_, kWordStream, kLength * e + c, 26));
    }
    return word;
  }

  SampleStream sample_;
  std::vector<std::string> words_;
  std::unordered_set<std::string> taken_;
};

std::vector<std::string> Asked(RankedWords& words) {
  std::vector<std::string> asked;
  for (std::int64_t rank = kFirstAsked; rank <= kLastAsked; ++rank) asked.push_back(words[rank]);
  return asked;
}

}  // namespace

FweTask::FweTask(const FweParams& params, std::shared_ptr<const Tokenizer> tokenizer)
    : ComposedTask(params, std::move(tokenizer), kReferenceGenTokens),
      params_(params),
      zeta_(Zeta(params.alpha)) {}

std::string FweTask::canon() const { return Canon("fwe").Real("alpha", params_.alpha).Text(); }

std::int64_t FweTask::vocabulary() const {
  return (params_.input_seq_len - kReferenceGenTokens) / kTokensPerWord;
}

std::int64_t FweTask::Count(std::int64_t size, std::int64_t rank) const {
  return RankCount(size, rank, params_.alpha, zeta_);
}

std::int64_t FweTask::MinSize() const {
  // Shares that lie `gap` apart differ by one in every list of 1/gap words or more.
  const auto share = [this](std::int64_t rank) {
    return std::pow(static_cast<double>(rank), -params_.alpha) / zeta_;
  };
  double gap = 1;
  for (std::int64_t rank = 1; rank <= kLastAsked; ++rank) {
    gap = std::min(gap, share(rank) - share(rank + 1));
  }
  return static_cast<std::int64_t>(std::ceil(1 / gap)) + 1;
}

Composition FweTask::Compose(const SampleStream& stream) const {
  RankedWords words(stream);
  Composition composed;
  composed.references = Asked(words);
  composed.answer = " " + WriteList(composed.references);
  composed.answer_prefix = kAnswerPrefix;
  const std::int64_t budget =
      prompt_budget(composed.answer) - (params_.bos ? 1 : 0) -
      CountTokensAtStart(tokenizer(), kHead) -
      CountTokens(tokenizer(), std::string(kQuestion) + composed.answer_prefix);

  // Every word follows a space, so the list has the same length in every order, and a longer list
  // never fewer tokens: the largest size that fits is found by halving.
  std::vector<std::int64_t> tokens_of;  // by rank - 1
  const auto total = [&](std::int64_t size) {
    std::int64_t total_tokens = 0;
    for (std::int64_t rank = 1; rank <= vocabulary(); ++rank) {
      const std::int64_t count = Count(size, rank);
      if (count == 0) break;
      if (std::ssize(tokens_of) < rank) {
        tokens_of.push_back(CountTokens(tokenizer(), " " + words[rank]));
      }
      total_tokens += count * tokens_of[static_cast<std::size_t>(rank - 1)];
    }
    return total_tokens;
  };
  std::int64_t size = MinSize();
  Require(total(size) <= budget, "a list whose answers stand out fits");
  // The first word alone fills the budget at this size.
  std::int64_t too_large = size + 1;
  while (total(too_large) <= budget) too_large *= 2;
  while (too_large - size > 1) {
    const std::int64_t middle = size + (too_large - size) / 2;
    (total(middle) <= budget ? size : too_large) = middle;
  }

  std::vector<std::int64_t> listed;  // ranks
  for (std::int64_t rank = 1; rank <= vocabulary() && Count(size, rank) > 0; ++rank) {
    listed.insert(listed.end(), static_cast<std::size_t>(Count(size, rank)), rank);
  }
  const auto num_words = static_cast<std::uint32_t>(listed.size());
  std::string list;
  for (const std::uint32_t i : PickVector(stream, kOrderStream, num_words, num_words)) {
    list.append(" ").append(words[listed[i]]);
  }
  composed.prompt.AddText(kHead);
  composed.prompt.AddText(list);
  composed.prompt.AddText(kQuestion);
  composed.metadata = {{"num_units", std::int64_t{num_words}}, {"size", size}};
  return composed;
}

std::string FweTask::DrawAnswer(const SampleStream& stream) const {
  RankedWords words(stream);
  return " " + WriteList(Asked(words));
}

std::string FweTask::Answer(std::string_view prompt) const {
  const std::size_t head = prompt.find(kHead);
  const std::size_t question = prompt.rfind(kQuestion);
  if (head == std::string_view::npos || question == std::string_view::npos) return "";
  const std::size_t begin = head + kHead.size() + 1;
  std::map<std::string, std::int64_t> counts;
  for (std::string& word : Split(prompt.substr(begin, question - begin), ' ')) {
    if (word != kNoise) ++counts[std::move(word)];
  }
  std::vector<std::pair<std::int64_t, std::string>> ranked;
  for (const auto& [word, count] : counts) ranked.emplace_back(-count, word);
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> asked;
  for (std::size_t i = 0; i < ranked.size() && i < 3; ++i) asked.push_back(ranked[i].second);
  return " " + WriteList(asked);
}

std::int64_t FweTask::max_answer_bytes() const {
  return std::ssize(" " + WriteList({"aaaaaa", "aaaaaa", "aaaaaa"}));
}

std::int64_t FweTask::MinInputSeqLen() const {
  std::int64_t list = 0;
  for (std::int64_t rank = 1; Count(MinSize(), rank) > 0; ++rank) {
    list += Count(MinSize(), rank) * (kLetters + 1);
  }
  const std::int64_t frame =
      CountTokensAtStart(tokenizer(), kHead) +
      CountTokens(tokenizer(), std::string(kQuestion) + std::string(kAnswerPrefix));
  return std::max((params_.bos ? 1 : 0) + frame + list + max_new_tokens_bound(),
                  (kLastAsked + 1) * kTokensPerWord + kReferenceGenTokens);
}

}  // namespace mixerbench::tasks::fwe
