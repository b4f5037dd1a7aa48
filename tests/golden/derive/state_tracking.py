"""States that every token changes: circuits, vocab_majority, mod_arith, group_word, group_swap.

SPDX-License-Identifier: Apache-2.0
"""

import functools
import itertools
from collections import Counter

from sample import Sample, count_bucket, task


@task("{circuit};L={input_seq_len}")
def circuits(draws, circuit="parity", input_seq_len=128):
    num_bits = input_seq_len if circuit == "cum_majority" else input_seq_len - 1
    bits = draws.U_range(0, 0, num_bits, 2)
    ones = list(itertools.accumulate(bits))
    if circuit == "parity":
        inputs, labels = bits + [2], {num_bits: sum(bits) % 2}
    elif circuit == "majority":
        inputs, labels = bits + [2], {num_bits: int(sum(bits) / num_bits > 0.5)}
    elif circuit == "cum_parity":
        inputs, labels = bits, {t: n % 2 for t, n in enumerate(ones)}
    else:
        inputs, labels = bits, {t: int(n >= t + 1 - n) for t, n in enumerate(ones)}
    return Sample(inputs, labels, {"position": {t: count_bucket(t) for t in labels}})


@task("vocab_majority;L={input_seq_len};vocab={vocab_size}")
def vocab_majority(draws, vocab_size=16, input_seq_len=128):
    tokens = [1 + token for token in draws.U_range(0, 0, input_seq_len - 1, vocab_size - 1)]
    counts = Counter(tokens)
    tied = [token for token in counts if counts[token] == max(counts.values())]
    answer = min(tied)
    if len(tied) > 1:
        other = next(token for token in tokens if token in tied and token != answer)
        tokens[tokens.index(other)] = answer
    return Sample(tokens + [0], {input_seq_len - 1: answer})


@task("mod_arith;L={expression_len};cumulative={cumulative};m={modulus};precedence={precedence}")
def mod_arith(draws, modulus=5, expression_len=39, precedence=False, cumulative=False):
    m, length = modulus, expression_len
    inputs = [draws.U(1, t, m) if t % 2 == 0 else m + draws.U(2, t, 3) for t in range(length)]
    values = (by_precedence if precedence else left_to_right)(inputs, m)
    labels = {2 * i: value for i, value in enumerate(values)} if cumulative else {length: values[-1]}
    return Sample(inputs + [m + 3], labels, {"num_operators": {t: count_bucket(t // 2) for t in labels}})


def left_to_right(inputs, m):
    """The value after every digit."""
    values = [inputs[0]]
    for operator, digit in zip(inputs[1::2], inputs[2::2]):
        total = values[-1]
        values.append([total + digit, total - digit, total * digit][operator - m] % m)
    return values


def by_precedence(inputs, m):
    """The same, by Python's own rules of precedence."""
    words = [str(x) if x < m else "+-*"[x - m] for x in inputs]
    return [eval(" ".join(words[:end])) % m for end in range(1, len(words) + 1, 2)]


def elements(kind, n):
    if kind == "Z":
        return list(range(n))
    permutations = list(itertools.permutations(range(n)))
    return permutations if kind == "S" else [p for p in permutations if is_even(p)]


def is_even(p):
    return sum(a > b for a, b in itertools.combinations(p, 2)) % 2 == 0


@functools.cache
def group_elements(group):
    """Kinds and sizes of the factors, and the elements in order of their ids."""
    factors = [(name[0], int(name[1:])) for name in group.split("x")]
    return factors, list(itertools.product(*(elements(*factor) for factor in factors)))


@functools.cache
def group_ids(group):
    return {element: i for i, element in enumerate(group_elements(group)[1])}


@task("group_word;L={input_seq_len};group={group}")
def group_word(draws, group="S5", input_seq_len=20):
    factors, ids = group_elements(group)

    def then(state, g):
        """First state, then g."""
        return tuple((s + e) % n if kind == "Z" else tuple(e[s[j]] for j in range(n))
                     for (kind, n), s, e in zip(factors, state, g))

    inputs = draws.U_range(0, 0, input_seq_len, len(ids))
    products = itertools.accumulate((ids[token] for token in inputs), then)
    labels = {t: group_ids(group)[product] for t, product in enumerate(products)}
    return Sample(inputs, labels, every_position(input_seq_len))


@task("group_swap;L={input_seq_len};n={num_points}")
def group_swap(draws, num_points=5, input_seq_len=32):
    swaps = list(itertools.combinations(range(num_points), 2))
    inputs = draws.U_range(0, 0, input_seq_len, len(swaps))
    cups, labels = list(range(num_points)), {}
    for t, token in enumerate(inputs):
        a, b = swaps[token]
        cups[a], cups[b] = cups[b], cups[a]
        labels[t] = cups.index(0)
    return Sample(inputs, labels, every_position(input_seq_len))


def every_position(length):
    return {"position": {t: count_bucket(t) for t in range(length)}, "last_position": {length - 1: "last"}}
