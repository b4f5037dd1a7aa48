#!/usr/bin/env python3
"""Golden samples of token tasks, derived a second time.

Plain Python from the tasks' pages and the sampling contract (tasks/README.md), sharing nothing with
the C++ samplers and written to be read, not to be fast. Where a published vector exists it is
checked first. Prints what the unit tests of circuits, vocab_majority, mod_arith, group_word,
group_swap, copying_lag, phonebook_tok, hint_recall and induction_heads expect:

    python3 tests/golden/derive/token_tasks.py
"""
# SPDX-License-Identifier: Apache-2.0
import hashlib
import itertools
import struct
from collections import Counter

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def philox(counter, key):
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & M32, (p0 >> 32) ^ c3 ^ k1, p0 & M32
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c0, c1, c2, c3


def mix64(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
    return z ^ (z >> 31)


def derive_key(canon, seed, split):
    h = 0xCBF29CE484222325
    for byte in canon.encode():
        h = ((h ^ byte) * 0x100000001B3) & M64
    for value in (0, seed, split):
        h = mix64(((h ^ value) + 0x9E3779B97F4A7C15) & M64)
    return h & M32, h >> 32


class Draws:
    """The random streams of one sample."""

    def __init__(self, canon, seed, split, index=0):
        self.key, self.index = derive_key(canon, seed, split), index

    def block(self, c0, c1):
        return philox((c0, c1, self.index & M32, self.index >> 32), self.key)

    def uniform(self, stream, j, n):
        threshold = (2**32 - n) % n
        first = [self.block(j // 4, stream)[j % 4]]
        retries = (w for a in itertools.count(1) for w in self.block(j, stream + (a << 16)))
        for word in itertools.chain(first, retries):
            if (word * n) & M32 >= threshold:
                return (word * n) >> 32

    def bernoulli(self, stream, j, p):
        return self.block(j // 4, stream)[j % 4] < int(p * 2**32)

    def pick(self, stream, n, k):
        array = {}
        out = []
        for t in range(k):
            r = t + self.uniform(stream, t, n - t)
            out.append(array.get(r, r))
            array[r] = array.get(t, t)
        return out


# Each task returns inputs and a dictionary from scored positions to labels.


def circuits(kind, length, seed, split):
    num_bits = length if kind == "cum_majority" else length - 1
    draws = Draws(f"{kind};L={length}", seed, split)
    bits = [draws.uniform(0, t, 2) for t in range(num_bits)]
    if kind == "parity":
        return bits + [2], {num_bits: sum(bits) % 2}
    if kind == "majority":
        return bits + [2], {num_bits: int(sum(bits) / num_bits > 0.5)}
    so_far = [sum(bits[: t + 1]) for t in range(num_bits)]
    if kind == "cum_parity":
        return bits, {t: ones % 2 for t, ones in enumerate(so_far)}
    return bits, {t: int(ones >= t + 1 - ones) for t, ones in enumerate(so_far)}


def vocab_majority(vocab, length, seed, split, index=0):
    draws = Draws(f"vocab_majority;L={length};vocab={vocab}", seed, split, index)
    tokens = [1 + draws.uniform(0, t, vocab - 1) for t in range(length - 1)]
    counts = Counter(tokens)
    tied = [token for token in counts if counts[token] == max(counts.values())]
    answer = min(tied)
    if len(tied) > 1:
        other = next(token for token in tied if token != answer)
        tokens[tokens.index(other)] = answer
    return tokens + [0], {length - 1: answer}


def mod_arith(m, length, precedence, cumulative, seed, split):
    canon = f"mod_arith;L={length};cumulative={cumulative};m={m};precedence={precedence}"
    draws = Draws(canon, seed, split)
    inputs = [
        draws.uniform(1, t, m) if t % 2 == 0 else m + draws.uniform(2, t, 3) for t in range(length)
    ]
    text = [str(x) if x < m else "+-*"[x - m] for x in inputs]

    def value(end):
        if precedence:
            return eval("".join(text[: end + 1])) % m
        total = int(text[0])
        for t in range(1, end, 2):
            total = eval(f"{total}{text[t]}{text[t + 1]}") % m
        return total

    labels = {t: value(t) for t in range(0, length, 2)} if cumulative else {length: value(length - 1)}
    return inputs + [m + 3], labels


def elements(kind, n):
    if kind == "Z":
        return list(range(n))
    permutations = list(itertools.permutations(range(n)))
    if kind == "S":
        return permutations
    even = lambda p: sum(p[i] > p[j] for i in range(n) for j in range(i + 1, n)) % 2 == 0
    return [p for p in permutations if even(p)]


def group_word(group, length, seed, split):
    parts = [(name[0], int(name[1:])) for name in group.split("x")]
    ids = list(itertools.product(*(elements(*part) for part in parts)))

    def then(state, g):
        return tuple(
            (s + e) % n if kind == "Z" else tuple(e[s[j]] for j in range(n))
            for (kind, n), s, e in zip(parts, state, g)
        )

    draws = Draws(f"group_word;L={length};group={group}", seed, split)
    inputs = [draws.uniform(0, t, len(ids)) for t in range(length)]
    products = itertools.accumulate((ids[i] for i in inputs), then)
    return inputs, {t: ids.index(product) for t, product in enumerate(products)}


def group_swap(n, length, seed, split):
    draws = Draws(f"group_swap;L={length};n={n}", seed, split)
    swaps = list(itertools.combinations(range(n), 2))
    inputs = [draws.uniform(0, t, len(swaps)) for t in range(length)]
    cups, labels = list(range(n)), {}
    for t, token in enumerate(inputs):
        a, b = swaps[token]
        cups[a], cups[b] = cups[b], cups[a]
        labels[t] = cups.index(0)
    return inputs, labels


def copying_lag(alphabet, length, lag, seed, split):
    draws = Draws(f"copying_lag;L={length};M={lag};alphabet={alphabet}", seed, split)
    inputs = [1 + draws.uniform(0, t, alphabet - 2) for t in range(length)]
    return inputs, dict(enumerate(([0] * lag + inputs)[:length]))


def phonebook_tok(n, seed, split):
    draws = Draws(f"phonebook_tok;n={n}", seed, split)
    names = [(12 + name // 1000, 1012 + name % 1000) for name in draws.pick(0, 10**6, n)]
    numbers = [[draws.uniform(1, 10 * e + c, 10) for c in range(10)] for e in range(n)]
    asked = draws.uniform(2, 0, n)
    inputs = []
    for name, number in zip(names, numbers):
        inputs += [*name, 10, *number, 11]
    first = len(inputs) + 2
    inputs += [*names[asked], 10, *numbers[asked][:-1]]
    return inputs, {first + c: digit for c, digit in enumerate(numbers[asked])}


def hint_recall(vocab, length, seed, split, hint=True, depth_percent=None, num_hints=1,
                num_targets=1, noise_vocab=0, frac_noise=0.0):
    draws = Draws(f"hint_recall;L={length};vocab={vocab}", seed, split)
    num_keys, n = vocab // 2, (length - 2) // 2
    target = draws.uniform(0, 0, n) if depth_percent is None else depth_percent * (n - 1) // 100
    h = draws.uniform(1, 0, num_keys)
    value = lambda key: num_keys + draws.uniform(4, key, vocab - num_keys)
    others = [t for t in range(n) if t != target]
    drawn = [key + (key >= h) for key in (draws.uniform(3, t, num_keys - 1) for t in range(n))]
    hints = [drawn[others[i]] for i in draws.pick(5, n - 1, num_hints - 1)]
    hints.insert(draws.uniform(6, 0, num_hints), h)
    targets = {target} | {others[i] for i in draws.pick(7, n - 1, num_targets - 1)}
    inputs = hints if hint else []
    for t in range(n):
        if t in targets:
            inputs += [h, value(h)]
        elif draws.bernoulli(8, t, frac_noise):
            inputs += [vocab + draws.uniform(9, 2 * t + i, noise_vocab) for i in range(2)]
        else:
            inputs += [drawn[t], value(drawn[t])]
    inputs.append(h)
    return inputs, {len(inputs) - 1: value(h)}


def induction_heads(vocab, length, prefix, seed, split):
    draws = Draws(f"induction_heads;L={length};prefix={prefix};vocab={vocab}", seed, split)
    inputs = [draws.uniform(2, t, vocab) for t in range(length)]
    position, memory = draws.uniform(0, 0, prefix), draws.uniform(1, 0, vocab)
    inputs[position], inputs[position + 1], inputs[-1] = vocab, memory, vocab
    return inputs, {length - 1: memory}


def sha256(inputs):
    return hashlib.sha256(struct.pack(f"<{len(inputs)}i", *inputs)).hexdigest()


def show(name, sample):
    inputs, labels = sample
    print(f"{name}\n  {' '.join(map(str, inputs)) if len(inputs) <= 128 else '...'}")
    print(f"  {' '.join(f'{t}:{label}' for t, label in labels.items())}\n  {sha256(inputs)}")


def main():
    assert philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    test = Draws("test", 0, 0)
    assert [test.uniform(0, j, 10) for j in range(12)] == [4, 8, 9, 6, 7, 3, 6, 7, 6, 5, 1, 2]
    assert test.uniform(0, 0, 3000000000) == 1403348295
    assert test.pick(3, 4095, 10) == [3065, 1818, 261, 1480, 1777, 3949, 1004, 3357, 3136, 1545]
    published = {
        "a46705afe45d6894861fbbb69565cab178baeef9bbdd78e8fde4e106eb1b711e": group_word("S5", 12, 1, 0),
        "90bc6aa96c82508c486d30fec755230249558bd50888a54214149eed11921f26": group_word("A5", 12, 1, 0),
        "11d960aff7d7fb13ee77f7204a6aec7e6d3bc8b4bfb39eafde6809e6c29cf900": hint_recall(64, 20, 1, 0),
        "0b9f9040fcd6429ed1abc902f85215969487e1b9f3d40f411fb3539a7fc4513f":
            induction_heads(16, 24, 10, 1, 0),
    }
    for expected, (inputs, _) in published.items():
        assert sha256(inputs) == expected

    for kind in ("parity", "cum_parity", "majority", "cum_majority"):
        show(f"{kind} L=16", circuits(kind, 16, 1, 0))
    show("vocab_majority vocab=6 L=16, a tie repaired at position 0", vocab_majority(6, 16, 1, 0))
    show("vocab_majority vocab=6 L=16, sample 2", vocab_majority(6, 16, 1, 0, 2))
    for precedence, cumulative in itertools.product((0, 1), (0, 1)):
        show(f"mod_arith m=5 L=15 {precedence=} {cumulative=}",
             mod_arith(5, 15, precedence, cumulative, 1, 0))
    for group in ("Z60", "A4xZ5", "S3xZ2xA3", "S7"):
        show(f"group_word {group} L=12", group_word(group, 12, 1, 0))
    show("group_swap n=5 L=12", group_swap(5, 12, 1, 0))
    show("group_swap n=7 L=12", group_swap(7, 12, 1, 0))
    show("copying_lag alphabet=10 L=12 lag=3", copying_lag(10, 12, 3, 1, 0))
    show("phonebook_tok n=3", phonebook_tok(3, 1, 0))
    show("phonebook_tok n=300", phonebook_tok(300, 1, 0))
    show("hint_recall vocab=64 L=20, no hint", hint_recall(64, 20, 1, 0, hint=False))
    for percent in (0, 50, 100):
        show(f"hint_recall vocab=64 L=20, depth {percent} %",
             hint_recall(64, 20, 1, 0, depth_percent=percent))
    show("hint_recall vocab=64 L=20, 3 hints", hint_recall(64, 20, 1, 0, num_hints=3))
    show("hint_recall vocab=64 L=20, 4 targets", hint_recall(64, 20, 1, 0, num_targets=4))
    show("hint_recall vocab=64 L=20, noise",
         hint_recall(64, 20, 1, 0, num_hints=2, num_targets=2, noise_vocab=8, frac_noise=0.7))
    show("induction_heads vocab=16 L=256 prefix=254", induction_heads(16, 256, 254, 1, 0))


if __name__ == "__main__":
    main()
