"""Multi-query recall: mqar, forgetting_mqar, compositional_mqar, continuous_mqar.

SPDX-License-Identifier: Apache-2.0
"""

from sample import Sample, count_bucket, task
from sampling import Draws, power_law_weights


def filler(draws, noise, vocab_size, keys, first, last):
    """Stream 3 at positions first .. last-1."""
    if noise == "zero":
        return [0] * (last - first)
    if noise == "random":
        return draws.U_range(3, first, last, vocab_size)
    ids = [token for token in range(vocab_size) if token not in keys]
    return [ids[rank] for rank in draws.U_range(3, first, last, len(ids))]


def query_slices(gaps, positions):
    """Slices of queries given by pair: its gap, and the position that is scored."""
    order = sorted(gaps)
    pairs = list(enumerate(zip(gaps, positions)))
    return {
        "gap": {t: count_bucket(gap) for _, (gap, t) in pairs},
        "pair_index": {t: count_bucket(j) for j, (_, t) in pairs},
        "num_queries_between": {t: count_bucket(order.index(gap)) for _, (gap, t) in pairs},
    }


def draw_pairs(draws, vocab_size, num_kv_pairs):
    half = vocab_size // 2
    keys = [1 + key for key in draws.pick(0, half - 1, num_kv_pairs)]
    values = [half + value for value in draws.pick(1, vocab_size - half, num_kv_pairs)]
    return keys, values


def with_queries(draws, context, keys, answers, vocab_size, input_seq_len, power_a, noise):
    """The context, then a query for each key, among filler."""
    begin = len(context)
    weights = power_law_weights((input_seq_len - begin) // 2, power_a)
    gaps = draws.wpick(2, weights, len(keys))
    inputs = context + filler(draws, noise, vocab_size, set(keys), begin, input_seq_len)
    labels = {}
    for key, gap, answer in zip(keys, gaps, answers):
        inputs[begin + 2 * gap] = key
        labels[begin + 2 * gap] = answer
    return Sample(inputs, labels, query_slices(gaps, list(labels)))


@task("mqar;L={input_seq_len};kv={num_kv_pairs};passes={num_passes};power_a={power_a};vocab={vocab_size}")
def mqar(draws, vocab_size=8192, input_seq_len=64, num_kv_pairs=8, num_passes=1, power_a=0.01, noise="random"):
    keys, values = draw_pairs(draws, vocab_size, num_kv_pairs)
    context = [token for pair in zip(keys, values) for token in pair] * num_passes
    return with_queries(draws, context, keys, values, vocab_size, input_seq_len, power_a, noise)


@task("forgetting_mqar;L={input_seq_len};kv={num_kv_pairs};power_a={power_a};updates={num_updates};vocab={vocab_size}")
def forgetting_mqar(draws, vocab_size=8192, input_seq_len=64, num_kv_pairs=8, num_updates=4, power_a=0.01,
                    noise="random"):
    half = vocab_size // 2
    keys, values = draw_pairs(draws, vocab_size, num_kv_pairs)
    context = [token for pair in zip(keys, values) for token in pair]
    updated = draws.pick(4, num_kv_pairs, num_updates)
    for j, pair in enumerate(updated):
        z = draws.U(5, j, vocab_size - half - 1)
        values[pair] = half + z + (z >= values[pair] - half)
        context += [keys[pair], values[pair]]
    sample = with_queries(draws, context, keys, values, vocab_size, input_seq_len, power_a, noise)
    sample.slices["updated"] = {t: "yes" if j in updated else "no" for j, t in enumerate(sample.labels)}
    return sample


@task("compositional_mqar;L={input_seq_len};kv={num_kv_pairs};power_a={power_a};vocab={vocab_size}")
def compositional_mqar(draws, vocab_size=8192, input_seq_len=64, num_kv_pairs=4, power_a=0.01, noise="random"):
    third, g = vocab_size // 3, round(num_kv_pairs**0.5)
    firsts = [1 + key for key in draws.pick(0, third - 1, g)]
    seconds = [third + key for key in draws.pick(1, third, g)]
    values = [2 * third + value for value in draws.pick(2, vocab_size - 2 * third, num_kv_pairs)]
    cells = [(firsts[cell // g], seconds[cell % g]) for cell in draws.shuffle(4, num_kv_pairs)]
    begin = 3 * num_kv_pairs
    gaps = draws.wpick(5, power_law_weights((input_seq_len - begin) // 3, power_a), num_kv_pairs)

    inputs = [token for cell, value in zip(cells, values) for token in (*cell, value)]
    inputs += filler(draws, noise, vocab_size, {*firsts, *seconds}, begin, input_seq_len)
    labels = {}
    for cell, value, gap in zip(cells, values, gaps):
        at = begin + 3 * gap
        inputs[at : at + 2] = cell
        labels[at + 1] = value
    return Sample(inputs, labels, query_slices(gaps, list(labels)))


@task("continuous_mqar;N={num_embeddings};kv={num_kv_pairs};passes={num_passes};"
      "per_sequence_mapping={per_sequence_mapping}")
def continuous_mqar(draws, num_embeddings=8192, num_kv_pairs=8, num_passes=1, per_sequence_mapping=True,
                    map_seed=12345):
    n, kv = num_embeddings, num_kv_pairs
    pairs = draws if per_sequence_mapping else Draws(f"continuous_mqar.map;N={n};kv={kv}", map_seed, 0)
    keys = pairs.pick(0, n // 2, kv)
    rows = [n // 2 + value for value in pairs.pick(1, n - n // 2, kv)]
    value_of = [rows[number] for number in pairs.shuffle(2, kv)]

    inputs, labels, shown_at = [], {}, {}
    slices = {"query_index": {}, "vectors_since_pair": {}}
    for p in range(num_passes):
        for j in draws.shuffle(16 + p, kv):
            shown_at[j] = len(inputs) // 2
            inputs += [keys[j], value_of[j]]
    for query, j in enumerate(draws.shuffle(8, kv)):
        inputs += [keys[j], n]
        at = len(inputs) - 1
        labels[at] = value_of[j]
        slices["query_index"][at] = count_bucket(query)
        slices["vectors_since_pair"][at] = count_bucket(at // 2 - shown_at[j])
    return Sample(inputs, labels, slices)
