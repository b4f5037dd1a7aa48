// The sampler of MAD fuzzy in-context recall; see mad_fuzzy.md for the layout and the streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/sampler.h"

namespace mixerbench::tasks::mad_fuzzy {

enum class KeyLength : std::int32_t {
  kUniform,  // 1..k_motif_size tokens, MAD's training data
  kLongest,  // always k_motif_size, MAD's test data
};

struct MadFuzzySampler {
  std::uint32_t vocab_size = 0;
  std::uint32_t seq_len = 0;
  bool is_multi_query = true;
  std::uint32_t noise_vocab_size = 0;
  std::uint64_t noise_threshold = 0;  // BernoulliThreshold(frac_noise)
  std::uint32_t max_key_len = 0;
  std::uint32_t max_value_len = 0;
  KeyLength key_length = KeyLength::kUniform;

  // Keys 0..num_keys-1, then values, then noise, the pad, (single query) the copy prefix.
  MB_HOST_DEVICE std::uint32_t num_recall_tokens() const {
    return vocab_size - noise_vocab_size - (is_multi_query ? 1 : 2);
  }
  MB_HOST_DEVICE std::uint32_t num_keys() const { return num_recall_tokens() / 2; }
  MB_HOST_DEVICE std::uint32_t num_values() const { return num_recall_tokens() - num_keys(); }
  MB_HOST_DEVICE std::uint32_t pad() const { return vocab_size - (is_multi_query ? 1 : 2); }
  MB_HOST_DEVICE std::uint32_t copy_prefix() const { return vocab_size - 1; }

  MB_HOST_DEVICE std::uint32_t max_pair_len() const { return max_key_len + max_value_len; }
  MB_HOST_DEVICE std::uint32_t min_key_len() const {
    return key_length == KeyLength::kLongest ? max_key_len : 1;
  }
  // Pairs and pieces of noise before the final probe, at most: each has min_key_len + 1 tokens,
  // and no more are added once seq_len less the probe and the longest pair is reached.
  MB_HOST_DEVICE std::uint32_t max_items() const {
    return (seq_len - max_pair_len()) / (min_key_len() + 1);
  }
  // Different keys: one for each item, and the probe.
  MB_HOST_DEVICE std::uint32_t max_entries() const { return max_items() + 1; }

  MB_HOST_DEVICE std::int64_t scratch_words() const {
    return kNumStateWords + std::int64_t{kRound} * (3 + max_key_len) +
           std::int64_t{max_entries()} * (3 + max_key_len) + 2 * std::int64_t{max_items()} +
           (std::int64_t{1} << Log2Cells());
  }

  template <typename Lanes>
  MB_HOST_DEVICE void Generate(const Lanes& lanes, const SampleStream& sample, LabelMode mode,
                               std::int32_t* inputs, std::int32_t* labels,
                               std::uint32_t* scratch) const {
    const Workspace w(*this, scratch);
    lanes.ForEach(std::int64_t{1} << Log2Cells(), [&](std::int64_t c) { w.cells[c] = 0; });
    lanes.Sync();
    lanes.Serial([&] { Begin(sample, w); });
    lanes.Sync();
    // How long an item is depends on whether its key has come before, so items follow one another;
    // what can be drawn without knowing that is drawn for many at once.
    do {
      const std::uint32_t first = w.next_iteration;
      DrawRound(lanes, sample, w, first);
      lanes.Sync();
      lanes.Serial([&] { AppendRound(w, first); });
      lanes.Sync();
    } while (w.length < w.bound);

    const std::uint32_t final_len = w.key_lens[0] + w.value_lens[0];
    const std::uint32_t prefix_len = is_multi_query ? 0 : 1;
    const std::uint32_t num_items = w.num_items;
    // The last token of all is no input.
    const std::uint32_t start = seq_len + 1 - w.length - prefix_len - final_len;
    lanes.ForEach(start, [&](std::int64_t t) { inputs[t] = static_cast<std::int32_t>(pad()); });
    lanes.ForEach(num_items, [&](std::int64_t i) {
      const std::uint32_t begin = w.item_begins[i];
      const std::uint32_t end = i + 1 < num_items ? w.item_begins[i + 1] : w.length;
      WriteItem(sample, w, w.item_entries[i], begin, end, inputs + start);
    });
    lanes.Serial([&] {
      if (!is_multi_query) inputs[start + w.length] = static_cast<std::int32_t>(copy_prefix());
      std::uint32_t value[kMaxFew];
      DrawValue(sample, w, 0, value);
      std::int32_t* const probe = inputs + start + w.length + prefix_len;
      for (std::uint32_t i = 0; i < w.key_lens[0]; ++i) {
        probe[i] = static_cast<std::int32_t>(w.keys[i]);
      }
      for (std::uint32_t i = 0; i + 1 < w.value_lens[0]; ++i) {
        probe[w.key_lens[0] + i] = static_cast<std::int32_t>(value[i]);
      }
      w.last_token = value[w.value_lens[0] - 1];
    });
    // Between the background and the answers there is a Sync; before it only `inputs` are read.
    WriteBackgroundLabels(lanes, mode, seq_len, inputs, labels);
    lanes.Serial([&] {
      labels[seq_len - 1] = static_cast<std::int32_t>(w.last_token);
      if (mode == LabelMode::kAllTokens) return;
      for (std::uint32_t i = 2; i <= w.value_lens[0]; ++i) {
        labels[seq_len - i] = inputs[seq_len + 1 - i];
      }
    });
    if (mode != LabelMode::kScored || !is_multi_query) return;
    lanes.ForEach(num_items, [&](std::int64_t i) {
      if ((w.item_entries[i] & kIsNoise) != 0 || (w.item_entries[i] & kIsRepeat) == 0) return;
      const std::uint32_t entry = w.item_entries[i] & ~kIsRepeat;
      const std::uint32_t first_value = start + w.item_begins[i] + w.key_lens[entry];
      for (std::uint32_t t = first_value; t < first_value + w.value_lens[entry]; ++t) {
        labels[t - 1] = inputs[t];
      }
    });
  }

 private:
  static constexpr std::uint32_t kKeyLenStream = 1, kValueLenStream = 2, kKeyStream = 3,
                                 kValueStream = 4, kProbeStream = 5, kProbeKeyStream = 6,
                                 kProbeValueStream = 7, kIsNoiseStream = 8, kNoiseStream = 9;
  static constexpr std::uint32_t kRound = 16;  // iterations drawn at once
  // Marks of an item's entry; the rest is the entry, or for noise the iteration.
  static constexpr std::uint32_t kIsNoise = 0x80000000u;
  static constexpr std::uint32_t kIsRepeat = 0x40000000u;
  static constexpr std::uint32_t kProbeIteration = 0xFFFFFFFFu;

  static constexpr std::int64_t kNumStateWords = 8;

  // The parts of the scratch memory. An entry is a key that was shown, with its value; entry 0 is
  // the probe.
  struct Workspace {
    MB_HOST_DEVICE Workspace(const MadFuzzySampler& s, std::uint32_t* scratch)
        : bound(scratch[0]),
          probe_begin(scratch[1]),
          next_iteration(scratch[2]),
          length(scratch[3]),
          num_items(scratch[4]),
          num_entries(scratch[5]),
          is_probe_shown(scratch[6]),
          last_token(scratch[7]),
          round_key_lens(scratch + kNumStateWords),
          round_value_lens(round_key_lens + kRound),
          round_is_noise(round_value_lens + kRound),
          round_keys(round_is_noise + kRound),
          iterations(round_keys + std::int64_t{kRound} * s.max_key_len),
          key_lens(iterations + s.max_entries()),
          value_lens(key_lens + s.max_entries()),
          keys(value_lens + s.max_entries()),
          item_begins(keys + std::int64_t{s.max_entries()} * s.max_key_len),
          item_entries(item_begins + s.max_items()),
          cells(item_entries + s.max_items()) {}

    std::uint32_t& bound;           // no item starts at this length or beyond
    std::uint32_t& probe_begin;     // from this length on the probe's pair is shown if it was not
    std::uint32_t& next_iteration;  // of the loop; every iteration adds an item
    std::uint32_t& length;          // tokens of the items so far
    std::uint32_t& num_items;
    std::uint32_t& num_entries;
    std::uint32_t& is_probe_shown;    // by its own pair or by a random key that equals it
    std::uint32_t& last_token;        // of the final probe's value
    std::uint32_t* round_key_lens;    // [kRound]
    std::uint32_t* round_value_lens;  // [kRound]
    std::uint32_t* round_is_noise;    // [kRound]
    std::uint32_t* round_keys;        // [kRound, max_key_len]
    std::uint32_t* iterations;        // [max_entries], which drew the value
    std::uint32_t* key_lens;          // [max_entries]
    std::uint32_t* value_lens;        // [max_entries]
    std::uint32_t* keys;              // [max_entries, max_key_len]
    std::uint32_t* item_begins;       // [max_items], tokens before the item
    std::uint32_t* item_entries;      // [max_items], with marks
    std::uint32_t* cells;             // hash table of entries, plus 1; 0 is empty
  };

  MB_HOST_DEVICE std::uint32_t Log2Cells() const { return WordMap::Log2Cells(max_entries()); }

  // The probe, and where it is to be shown.
  MB_HOST_DEVICE void Begin(const SampleStream& sample, const Workspace& w) const {
    const PhiloxBlock words = Words(sample, kProbeStream, 0);
    const std::uint32_t key_len =
        key_length == KeyLength::kLongest
            ? max_key_len
            : 1 + UniformFromWord(sample, kProbeStream, 0, words.words[0], max_key_len);
    const std::uint32_t value_len =
        1 + UniformFromWord(sample, kProbeStream, 1, words.words[1], max_value_len);
    std::uint32_t key[kMaxFew];
    PickFew(sample, kProbeKeyStream, num_keys(), key_len, 0, key);
    w.next_iteration = 0;
    w.length = 0;
    w.num_items = 0;
    w.num_entries = 0;
    w.is_probe_shown = 0;
    w.bound = seq_len - key_len - value_len - max_pair_len();
    w.probe_begin =
        UniformFromWord(sample, kProbeStream, 2, words.words[2], w.bound - max_pair_len());
    FindOrAddEntry(w, key, key_len, value_len, kProbeIteration);
  }

  // Lengths, noise and keys of iterations first .. first+kRound-1. A key of fewer tokens than
  // max_key_len is the start of what is drawn here.
  template <typename Lanes>
  MB_HOST_DEVICE void DrawRound(const Lanes& lanes, const SampleStream& sample, const Workspace& w,
                                std::uint32_t first) const {
    const std::uint32_t last = first + kRound;
    ForEachWord(lanes, sample, kKeyLenStream, first, last,
                [&](std::uint32_t it, std::uint32_t word) {
                  w.round_key_lens[it - first] =
                      key_length == KeyLength::kLongest
                          ? max_key_len
                          : 1 + UniformFromWord(sample, kKeyLenStream, it, word, max_key_len);
                });
    ForEachWord(lanes, sample, kValueLenStream, first, last,
                [&](std::uint32_t it, std::uint32_t word) {
                  w.round_value_lens[it - first] =
                      1 + UniformFromWord(sample, kValueLenStream, it, word, max_value_len);
                });
    if (noise_threshold == 0) {
      lanes.ForEach(kRound, [&](std::int64_t i) { w.round_is_noise[i] = 0; });
    } else {
      ForEachWord(lanes, sample, kIsNoiseStream, first, last,
                  [&](std::uint32_t it, std::uint32_t word) {
                    w.round_is_noise[it - first] = BernoulliFromWord(word, noise_threshold);
                  });
    }
    lanes.ForEach(kRound, [&](std::int64_t i) {
      PickFew(sample, kKeyStream, num_keys(), max_key_len,
              16 * (first + static_cast<std::uint32_t>(i)), w.round_keys + i * max_key_len);
    });
  }

  // Appends the items of one round, until the length reaches its bound.
  MB_HOST_DEVICE void AppendRound(const Workspace& w, std::uint32_t first) const {
    for (std::uint32_t i = 0; i < kRound && w.length < w.bound; ++i) {
      const std::uint32_t iteration = first + i;
      std::uint32_t marked = 0;  // entry of the item
      std::uint32_t len = 0;
      if (w.is_probe_shown == 0 && w.length >= w.probe_begin) {
        marked = Show(w, 0, false);
        len = w.key_lens[0] + w.value_lens[0];
      } else if (w.round_is_noise[i] != 0) {
        marked = kIsNoise | iteration;
        len = w.round_key_lens[i] + w.round_value_lens[i];
      } else {
        const std::uint32_t num_before = w.num_entries;
        const std::uint32_t entry =
            FindOrAddEntry(w, w.round_keys + std::int64_t{i} * max_key_len, w.round_key_lens[i],
                           w.round_value_lens[i], iteration);
        marked = Show(w, entry, entry == num_before);
        len = w.key_lens[entry] + w.value_lens[entry];
      }
      w.item_begins[w.num_items] = w.length;
      w.item_entries[w.num_items] = marked;
      ++w.num_items;
      w.length += len;
    }
    w.next_iteration = first + kRound;
  }

  // The entry, marked when its key was shown before.
  MB_HOST_DEVICE static std::uint32_t Show(const Workspace& w, std::uint32_t entry, bool is_new) {
    bool is_repeat = !is_new;
    if (entry == 0) {
      is_repeat = w.is_probe_shown != 0;
      w.is_probe_shown = 1;
    }
    return is_repeat ? entry | kIsRepeat : entry;
  }

  // The entry of a key; a new one gets the value of `iteration`.
  MB_HOST_DEVICE std::uint32_t FindOrAddEntry(const Workspace& w, const std::uint32_t* key,
                                              std::uint32_t key_len, std::uint32_t value_len,
                                              std::uint32_t iteration) const {
    std::uint32_t hash = key_len;
    for (std::uint32_t i = 0; i < key_len; ++i) hash = (hash ^ key[i]) * 0x01000193u;
    const std::uint32_t mask = (1u << Log2Cells()) - 1;
    std::uint32_t cell = (hash * 0x9E3779B1u) >> (32 - Log2Cells());
    for (; w.cells[cell] != 0; cell = (cell + 1) & mask) {
      const std::uint32_t entry = w.cells[cell] - 1;
      const std::uint32_t* const other = w.keys + std::int64_t{entry} * max_key_len;
      bool is_equal = w.key_lens[entry] == key_len;
      for (std::uint32_t i = 0; is_equal && i < key_len; ++i) is_equal = other[i] == key[i];
      if (is_equal) return entry;
    }
    const std::uint32_t entry = w.num_entries++;
    w.cells[cell] = entry + 1;
    w.iterations[entry] = iteration;
    w.key_lens[entry] = key_len;
    w.value_lens[entry] = value_len;
    for (std::uint32_t i = 0; i < key_len; ++i) {
      w.keys[std::int64_t{entry} * max_key_len + i] = key[i];
    }
    return entry;
  }

  // The tokens of an entry's value. value: [kMaxFew].
  MB_HOST_DEVICE void DrawValue(const SampleStream& sample, const Workspace& w, std::uint32_t entry,
                                std::uint32_t* value) const {
    const std::uint32_t iteration = w.iterations[entry];
    const bool is_probe = iteration == kProbeIteration;
    PickFew(sample, is_probe ? kProbeValueStream : kValueStream, num_values(), w.value_lens[entry],
            is_probe ? 0 : 16 * iteration, value);
    for (std::uint32_t i = 0; i < w.value_lens[entry]; ++i) value[i] += num_keys();
  }

  // Writes an item at begin..end-1 of `items`.
  MB_HOST_DEVICE void WriteItem(const SampleStream& sample, const Workspace& w,
                                std::uint32_t marked, std::uint32_t begin, std::uint32_t end,
                                std::int32_t* items) const {
    if ((marked & kIsNoise) != 0) {
      const std::uint32_t iteration = marked & ~kIsNoise;
      WordReader reader(sample, kNoiseStream);
      for (std::uint32_t q = 0; q < end - begin; ++q) {
        const std::uint32_t j = 64 * iteration + q;
        items[begin + q] = static_cast<std::int32_t>(
            num_recall_tokens() +
            UniformFromWord(sample, kNoiseStream, j, reader.Word(j), noise_vocab_size));
      }
      return;
    }
    const std::uint32_t entry = marked & ~kIsRepeat;
    const std::uint32_t key_len = w.key_lens[entry];
    for (std::uint32_t i = 0; i < key_len; ++i) {
      items[begin + i] = static_cast<std::int32_t>(w.keys[std::int64_t{entry} * max_key_len + i]);
    }
    std::uint32_t value[kMaxFew];
    DrawValue(sample, w, entry, value);
    for (std::uint32_t i = 0; i < w.value_lens[entry]; ++i) {
      items[begin + key_len + i] = static_cast<std::int32_t>(value[i]);
    }
  }
};

}  // namespace mixerbench::tasks::mad_fuzzy
