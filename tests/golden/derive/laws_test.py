"""What samples must be like by their sources, whatever the tasks' pages say.

The second derivation repeats a page bit by bit, mistakes included. Here facts of the publications and
of their generators are held against thousands of samples: probabilities in closed form where there is
one, else a simulation with Python's own random numbers. Seeds are fixed, so a test passes always or
never; bounds are four standard errors.

SPDX-License-Identifier: Apache-2.0
"""

import math
import random
import unittest
from collections import Counter

from program_rows import IGNORE, rows_of

SIGMAS = 4


def scored(row):
    return [t for t, label in enumerate(row["labels"]) if label != IGNORE]


class Laws(unittest.TestCase):
    def assert_share(self, hits, probability):
        """hits: one truth value for each trial."""
        hits = [bool(hit) for hit in hits]
        error = math.sqrt(probability * (1 - probability) / len(hits))
        self.assertLessEqual(abs(sum(hits) / len(hits) - probability), SIGMAS * error)

    def assert_mean(self, values, mean, variance):
        error = math.sqrt(variance / len(values))
        self.assertLessEqual(abs(sum(values) / len(values) - mean), SIGMAS * error)

    def assert_law(self, values, law):
        """Chi-square of values against law[value], a probability."""
        counts, n = Counter(values), len(values)
        self.assertLessEqual(set(counts), set(law))
        statistic = sum((counts[v] - n * p) ** 2 / (n * p) for v, p in law.items())
        freedom = len(law) - 1
        self.assertLessEqual(statistic, freedom + SIGMAS * math.sqrt(2 * freedom) + SIGMAS**2)

    def assert_uniform(self, values, support):
        self.assert_law(values, {v: 1 / len(support) for v in support})

    def assert_same_law(self, left, right):
        """Two samples of equal size, compared where values are common."""
        a, b = Counter(left), Counter(right)
        common = [v for v in a | b if a[v] + b[v] >= 20]
        statistic = sum((a[v] - b[v]) ** 2 / (a[v] + b[v]) for v in common)
        self.assertLessEqual(statistic, len(common) + SIGMAS * math.sqrt(2 * len(common)) + SIGMAS**2)


class Recall(Laws):
    """Zoology: NumPy's choice without replacement, with p proportional to (g+1)^(a-1)."""

    LENGTH, PAIRS, SLOTS = 64, 4, 28

    def gap_weights(self, a):
        weights = [(g + 1) ** (a - 1) for g in range(self.SLOTS)]
        return {g: w / sum(weights) for g, w in enumerate(weights)}

    def gaps(self, a):
        """[sample][pair]"""
        for row in rows_of("mqar", 4000, input_seq_len=self.LENGTH, num_kv_pairs=self.PAIRS, power_a=a, noise="zero"):
            keys = row["inputs"][: 2 * self.PAIRS : 2]
            yield [(row["inputs"].index(key, 2 * self.PAIRS) - 2 * self.PAIRS) // 2 for key in keys]

    def test_mqar_gaps_follow_the_power_law(self):
        for a in (0.01, 1.0, 2.5):
            self.assert_law([gaps[0] for gaps in self.gaps(a)], self.gap_weights(a))

    def test_mqar_later_pairs_get_what_is_left(self):
        law, rng, simulated = self.gap_weights(0.01), random.Random(1), []
        for _ in range(4000):
            left = dict(law)
            for _ in range(self.PAIRS):
                (gap,) = rng.choices(list(left), list(left.values()))
                del left[gap]
            simulated.append(gap)
        self.assert_same_law([gaps[-1] for gaps in self.gaps(0.01)], simulated)

    def test_mqar_filler_repeats_stored_keys_as_often_as_zoology(self):
        # Q04: of the queries, with vocabulary 8192; measured there: 0.4 % and 1.6 %.
        for length, pairs, published in ((256, 64, 0.004), (1024, 256, 0.016)):
            seen = []
            for row in rows_of("mqar", 500, input_seq_len=length, num_kv_pairs=pairs, noise="random"):
                for t in scored(row):
                    seen.append(row["inputs"][t] in row["inputs"][2 * pairs : t])
            self.assertAlmostEqual(sum(seen) / len(seen), published, delta=0.0005 + 0.0006)

    def test_mqar_keys_and_values_are_uniform(self):
        rows = rows_of("mqar", 4000, vocab_size=32, input_seq_len=16, num_kv_pairs=2)
        self.assert_uniform([row["inputs"][2] for row in rows], range(1, 16))
        self.assert_uniform([row["inputs"][3] for row in rows], range(16, 32))

    def test_forgetting_mqar_updates_any_pair_to_any_other_value(self):
        steps, pairs = [], []
        for row in rows_of("forgetting_mqar", 4000, vocab_size=32, input_seq_len=24, num_kv_pairs=3, num_updates=2):
            first = dict(zip(row["inputs"][0:6:2], row["inputs"][1:6:2]))
            key, value = row["inputs"][6:8]
            pairs.append(list(first).index(key))
            steps.append((value - first[key]) % 16)
        self.assert_uniform(pairs, range(3))
        self.assert_uniform(steps, range(1, 16))

    def test_compositional_mqar_places_a_grid_at_random(self):
        orders = []
        for row in rows_of("compositional_mqar", 4800, vocab_size=60, input_seq_len=24, num_kv_pairs=4):
            cells = list(zip(row["inputs"][0:12:3], row["inputs"][1:12:3]))
            firsts, seconds = sorted({a for a, _ in cells}), sorted({b for _, b in cells})
            orders.append(tuple(2 * firsts.index(a) + seconds.index(b) for a, b in cells))
        self.assertEqual(len(set(orders)), 24)
        self.assert_uniform(orders, set(orders))

    def test_continuous_mqar_orders_every_pass_anew(self):
        same = []
        for row in rows_of("continuous_mqar", 4800, num_embeddings=20, num_kv_pairs=3, num_passes=2):
            passes = [row["inputs"][begin : begin + 6 : 2] for begin in (0, 6, 12)]
            same.append((passes[0] == passes[1]) + 2 * (passes[1] == passes[2]))
        self.assert_law(same, {0: 25 / 36, 1: 5 / 36, 2: 5 / 36, 3: 1 / 36})


class Mad(Laws):
    def test_icr_asks_for_a_distinct_key_whatever_its_count(self):
        # Three slots, of which one key takes two: the other one is asked for half the time.
        asked_once = []
        for row in rows_of("mad_icr", 4000, input_seq_len=8, vocab_size=8):
            counts = Counter(row["inputs"][0:6:2])
            if sorted(counts.values()) == [1, 2]:
                asked_once.append(counts[row["inputs"][6]] == 1)
        self.assert_share(asked_once, 0.5)

    def test_icr_keys_and_their_values(self):
        rows = rows_of("mad_icr", 2000)
        # 63 pairs over 8 keys.
        p = (7 / 8) ** 63
        self.assert_share([key not in row["inputs"][:126:2] for row in rows for key in range(8)], p)
        values = [dict(zip(row["inputs"][:126:2], row["inputs"][1:126:2])) for row in rows]
        self.assert_uniform([v[0] for v in values if 0 in v], range(8, 16))
        self.assert_share([v[0] == v[1] for v in values if 0 in v and 1 in v], 1 / 8)

    def test_icr_noise_spares_one_slot(self):
        rows = rows_of("mad_icr", 2000, vocab_size=32, input_seq_len=22, noise_vocab_size=16, frac_noise=0.4)
        noisy = [sum(token >= 16 for token in row["inputs"][:20:2]) for row in rows]
        self.assert_mean(noisy, 9 * 0.4, 9 * 0.4 * 0.6)
        self.assert_law(noisy, {k: math.comb(9, k) * 0.4**k * 0.6 ** (9 - k) for k in range(10)})

    def fuzzy_showings(self, length, longest, rng, num_keys=7, k_motif=3, v_motif=3):
        """How often mad-lab shows the probe before it asks, among tuples of distinct tokens; its place is
        drawn where it always fits."""
        size = lambda most, fixed: most if fixed else rng.randint(1, most)
        draw = lambda n: tuple(rng.sample(range(num_keys), n))
        probe, probe_value = draw(size(k_motif, longest)), size(v_motif, False)
        bound = length - len(probe) - probe_value - k_motif - v_motif
        begin = rng.randrange(bound - k_motif - v_motif)
        value_of, shown, used = {probe: probe_value}, 0, 0
        while used < bound:
            k, v = size(k_motif, longest), size(v_motif, False)
            key = probe if used >= begin and not shown else draw(k)
            shown += key == probe
            used += len(key) + value_of.setdefault(key, v)
        return min(shown, 6)

    def test_fuzzy_counts_a_random_probe_as_shown(self):
        for length, key_length in ((128, "uniform"), (1024, "uniform"), (128, "longest")):
            rng = random.Random(length)
            count = 3000 if length == 128 else 800
            simulated = [self.fuzzy_showings(length, key_length == "longest", rng) for _ in range(count)]
            rows = rows_of("mad_fuzzy", count, input_seq_len=length, key_length=key_length)
            self.assert_same_law([min(probe_showings(row), 6) for row in rows], simulated)

    def memorized_keys(self, split, vocab_size):
        rows = rows_of("mad_memorization", 256, split=split, seed=12345, vocab_size=vocab_size)
        return [token for row in rows for token in row["inputs"][::2]]

    def test_memorization_data_tell_what_is_published(self):
        # Coverage of the test keys by 256 training samples of 16 keys.
        for vocab_size in (1024, 2048, 4096, 8192):
            train, test = self.memorized_keys("train", vocab_size), self.memorized_keys("test", vocab_size)
            known = set(train)
            num_keys = (vocab_size - 1) // 2
            expected = 1 - (1 - 1 / num_keys) ** len(train)
            published = {1024: 0.9997, 2048: 0.982, 4096: 0.865, 8192: 0.632}[vocab_size]
            self.assertAlmostEqual(expected, published, delta=0.0005)
            self.assertAlmostEqual(sum(key in known for key in test) / len(test), expected, delta=0.03)

    def test_memorization_map_is_injective(self):
        rows = rows_of("mad_memorization", 400)
        pairs = {(row["inputs"][t - 1], row["labels"][t]) for row in rows for t in scored(row)}
        self.assertEqual(len(pairs), len({key for key, _ in pairs}))
        self.assertEqual(len(pairs), len({value for _, value in pairs}))

    def test_compression_tokens_are_uniform(self):
        rows = rows_of("mad_compression", 500)
        self.assert_uniform([token for row in rows for token in row["inputs"][:-1]], range(15))

    def test_selective_copying_puts_each_blank_before_any_data_token(self):
        k, length = 4, 30
        blanks = length - 2 * k - 1
        firsts = []
        for row in rows_of("mad_selective_copying", 3000, vocab_size=10, input_seq_len=length, num_tokens_to_copy=k):
            head = row["inputs"][: length - k - 1]
            self.assertNotEqual(head[-1], 8)  # nothing follows the last data token
            firsts.append(next(t for t, token in enumerate(head) if token != 8))
        self.assert_law([min(first, 10) for first in firsts], binomial_up_to(blanks, 1 / k, 10))


def probe_showings(row):
    """Showings of the final probe among the inputs before it, for options without noise."""
    inputs = row["inputs"]
    pad = 15
    tokens = [token for token in inputs if token != pad]
    pairs, key, value = [], [], []
    for token in tokens:
        if token < 7 and value:
            pairs.append(tuple(key))
            key, value = [], []
        (key if token < 7 else value).append(token)
    return pairs.count(tuple(key))


def binomial_up_to(n, p, last):
    law = {k: math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(last)}
    return law | {last: 1 - sum(law.values())}


class Copying(Laws):
    def test_selective_copying_places_are_a_uniform_subset(self):
        rows = rows_of("selective_copying", 3000, vocab_size=6, num_tokens_to_copy=2, prefix_len=6)
        places = [tuple(t for t in range(6) if row["inputs"][t]) for row in rows]
        self.assert_uniform(places, {(a, b) for b in range(6) for a in range(b)})

    def test_copying_lag_tokens_are_uniform(self):
        rows = rows_of("copying_lag", 300, vocab_size=10)
        self.assert_uniform([token for row in rows for token in row["inputs"]], range(1, 9))

    def test_str_copy_asks_for_any_ngram_that_occurs_once(self):
        # Jelassi et al. never ask for the last one and may ask for one that is ambiguous (Q22).
        starts = []
        for row in rows_of("str_copy", 3000, variant="suffix_ngram", alphabet_size=26, min_len=8, max_len=8,
                           context_len=40, n_gram=3, packed=False):
            string, g = row["inputs"][1:9], row["inputs"][10:13]
            places = [i for i in range(6) if string[i : i + 3] == g]
            self.assertEqual(len(places), 1)
            starts += places
        self.assert_uniform(starts, range(5))

    def test_str_copy_lengths_are_uniform(self):
        rows = rows_of("str_copy", 2000, min_len=5, max_len=9, context_len=30, packed=False)
        self.assert_uniform([row["inputs"].index(27) - 1 for row in rows], range(5, 10))

    def test_str_copy_doubles_an_ngram(self):
        for row in rows_of("str_copy", 300, variant="duplicate_ngram", min_len=12, max_len=12, context_len=28,
                           packed=False):
            string = row["inputs"][1:13]
            grams = Counter(tuple(string[i : i + 3]) for i in range(10))
            self.assertGreaterEqual(max(grams.values()), 2)


class Lookup(Laws):
    def test_hint_recall_target_and_distractors(self):
        rows = rows_of("hint_recall", 3000, vocab_size=16, input_seq_len=14)
        slots, others = [], []
        for row in rows:
            h, keys = row["inputs"][0], row["inputs"][1:-1:2]
            self.assertEqual(keys.count(h), 1)
            slots.append(keys.index(h))
            others += [(key - h) % 8 for key in keys if key != h]
        self.assert_uniform(slots, range(6))
        self.assert_uniform(others, range(1, 8))

    def test_induction_heads_place_and_memory(self):
        rows = rows_of("induction_heads", 3000, vocab_size=4, input_seq_len=12, prefix_len=10)
        self.assertTrue(all(row["inputs"].count(4) == 2 for row in rows))
        self.assert_uniform([row["inputs"].index(4) for row in rows], range(10))
        self.assert_uniform([row["labels"][-1] for row in rows], range(4))

    def test_phonebook_names_are_distinct_and_any_is_asked(self):
        asked = []
        for row in rows_of("phonebook_tok", 2000, num_entries=5):
            names = [tuple(row["inputs"][14 * e :][:2]) for e in range(5)]
            self.assertEqual(len(set(names)), 5)
            asked.append(names.index(tuple(row["inputs"][70:72])))
        self.assert_uniform(asked, range(5))


class StateTracking(Laws):
    def last_labels(self, task, count, **options):
        return [row["labels"][scored(row)[-1]] for row in rows_of(task, count, **options)]

    def test_circuits_answers_have_their_binomial_shares(self):
        self.assert_share(self.last_labels("circuits", 3000, circuit="parity", input_seq_len=9), 0.5)
        ties = math.comb(8, 4) / 2**8
        self.assert_share(self.last_labels("circuits", 3000, circuit="majority", input_seq_len=9), (1 - ties) / 2)
        self.assert_share(self.last_labels("circuits", 3000, circuit="cum_majority", input_seq_len=8), (1 + ties) / 2)
        self.assert_share(self.last_labels("circuits", 3000, circuit="cum_parity", input_seq_len=9), 0.5)

    def test_vocab_majority_answer_wins_alone_and_ties_favour_small_ids(self):
        rows = rows_of("vocab_majority", 3000, vocab_size=5, input_seq_len=8)
        rng, simulated = random.Random(2), []
        for row in rows:
            (first, n), *rest = Counter(row["inputs"][:-1]).most_common(2)
            self.assertEqual(first, row["labels"][-1])
            self.assertTrue(not rest or rest[0][1] < n)
            counts = Counter(rng.randint(1, 4) for _ in range(7))
            simulated.append(min(counts, key=lambda token: (-counts[token], token)))
        self.assert_same_law([row["labels"][-1] for row in rows], simulated)

    def test_mod_arith_zero_is_likelier(self):
        # From left to right a state v > 0 stays likely as others are, and 0 has 3/11.
        answers = self.last_labels("mod_arith", 4000, modulus=5, expression_len=31)
        self.assert_law(answers, {0: 3 / 11} | {v: 2 / 11 for v in range(1, 5)})

    def test_group_words_have_uniform_products(self):
        self.assert_uniform(self.last_labels("group_word", 4000, group="A4", input_seq_len=3), range(12))

    def test_group_swap_follows_the_random_walk(self):
        n, t = 5, 3
        home = 1 / n + (1 - 1 / n) * (1 - 2 / (n - 1)) ** t
        law = {0: home} | {place: (1 - home) / (n - 1) for place in range(1, n)}
        self.assert_law(self.last_labels("group_swap", 4000, num_points=n, input_seq_len=t), law)


if __name__ == "__main__":
    unittest.main()
