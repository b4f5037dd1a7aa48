"""Random numbers of a sample, from tasks/README.md and the known answers of Random123.

Written a second time, in plain Python: nothing here has seen the C++ code.

SPDX-License-Identifier: Apache-2.0
"""

import array
import functools
import itertools
from bisect import bisect_right
from decimal import Decimal, localcontext

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85


def philox(counter, key, one=1):
    """Philox4x32-10.

    Python's integers have any size, so many counters are computed at once: a word of the state is
    a number whose 64-bit digits hold that word of each counter, and `one` has a 1 in every digit.
    """
    low = one * M32
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1 = (p1 >> 32 & low) ^ c1 ^ k0 * one, p1 & low
        c2, c3 = (p0 >> 32 & low) ^ c3 ^ k1 * one, p0 & low
        k0, k1 = (k0 + WEYL[0]) & M32, (k1 + WEYL[1]) & M32
    return c0, c1, c2, c3


@functools.cache
def ones(count):
    return int.from_bytes(array.array("Q", [1] * count).tobytes(), "little")


def consecutive_blocks(first, count, c1, c2, c3, key):
    """The words of counters first .. first+count-1, in order."""
    one = ones(count)
    c0 = int.from_bytes(array.array("Q", range(first, first + count)).tobytes(), "little")
    words = array.array("I", bytes(16 * count))
    for lane, word in enumerate(philox((c0, c1 * one, c2 * one, c3 * one), key, one)):
        digits = array.array("I", word.to_bytes(8 * count, "little"))
        words[lane::4] = digits[0::2]
    return words


def mix64(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
    return z ^ (z >> 31)


def fnv1a64(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & M64
    return h


@functools.cache
def derive_key(canon, seed, split):
    h = fnv1a64(canon)
    for value in (0, seed, split):
        h = mix64(((h ^ value) + 0x9E3779B97F4A7C15) & M64)
    return h & M32, h >> 32


class Draws:
    """The random streams of one sample, named as in tasks/README.md."""

    def __init__(self, canon, seed, split, index=0):
        self.key, self.index = derive_key(canon, seed, split), index

    def block(self, c0, c1):
        return philox((c0, c1, self.index & M32, self.index >> 32), self.key)

    def W(self, s, j):
        return self.block(j // 4, s)[j % 4]

    def words(self, s, first, count):
        """W(s, first), W(s, first+1), ..."""
        begin, end = first // 4, (first + count + 3) // 4
        words = consecutive_blocks(begin, end - begin, s, self.index & M32, self.index >> 32, self.key)
        return words[first - 4 * begin :][:count]

    def bounded(self, s, j, word, n):
        """U(s, j, n), given W(s, j)."""
        threshold = (2**32 - n) % n
        retries = (w for a in itertools.count(1) for w in self.block(j, s + (a << 16)))
        for w in itertools.chain([word], retries):
            if (w * n) & M32 >= threshold:
                return (w * n) >> 32

    def U(self, s, j, n):
        return self.bounded(s, j, self.W(s, j), n)

    def U_range(self, s, first, last, n):
        """[U(s, j, n) for j = first .. last-1]"""
        threshold = (2**32 - n) % n
        return [
            (w * n) >> 32 if (w * n) & M32 >= threshold else self.bounded(s, j, w, n)
            for j, w in enumerate(self.words(s, first, last - first), first)
        ]

    def B(self, s, j, p):
        return self.W(s, j) < int(p * 2**32)

    def B_range(self, s, count, p):
        return [w < int(p * 2**32) for w in self.words(s, 0, count)]

    def pick(self, s, n, k, base=0):
        displaced, picked = {}, []
        for t, word in enumerate(self.words(s, base, k)):
            r = t + self.bounded(s, base + t, word, n - t)
            picked.append(displaced.get(r, r))
            displaced[r] = displaced.get(t, t)
        return picked

    def shuffle(self, s, n, base=0):
        return self.pick(s, n, n, base)

    def wpick(self, s, weights, k):
        weights, picked = list(weights), []
        for t, word in enumerate(self.words(s, 0, k)):
            sums = list(itertools.accumulate(weights))
            slot = bisect_right(sums, self.bounded(s, t, word, sums[-1]))
            picked.append(slot)
            weights[slot] = 0
        return picked


@functools.cache
def power_law_weights(num_slots, a):
    """floor(2^31 p_g) + 1, p_g proportional to (g+1)^(a-1); a is a double, the rest exact enough."""
    with localcontext() as context:
        context.prec = 40
        shares = [Decimal(g + 1) ** (Decimal(a) - 1) for g in range(num_slots)]
        total = sum(shares)
        return [int(2**31 * share / total) + 1 for share in shares]
