#!/usr/bin/env python3
"""Golden samples of the MAD tasks, continuous_mqar and str_copy, derived a second time.

As token_tasks.py: from the tasks' pages alone, sharing nothing with the C++ samplers; published
vectors are checked first. Prints what the unit tests expect:

    python3 tests/golden/derive/recall_and_mad.py
"""
# SPDX-License-Identifier: Apache-2.0
from token_tasks import Draws, sha256

IGNORE = -100


class Sample(Draws):
    """The draws of one sample, by the letters of the sampling contract."""

    def W(self, s, j):
        return self.block(j // 4, s)[j % 4]

    def U(self, s, j, n):
        return self.uniform(s, j, n)

    def B(self, s, j, p):
        return self.W(s, j) < int(p * 2**32)

    def pick(self, s, n, k, base=0):
        a = list(range(n))
        for t in range(k):
            r = t + self.U(s, base + t, n - t)
            a[t], a[r] = a[r], a[t]
        return a[:k]


def show(title, inputs, labels):
    print("*", title)
    print("  inputs", *inputs)
    print("  labels", *(f"{t}:{v}" for t, v in enumerate(labels) if v != IGNORE))
    return sha256(inputs)


def mad_fuzzy(L, vocab, k, v, seed, split, longest, multi=1, noise_vocab=0, frac="0", index=0):
    canon = (f"mad_fuzzy;L={L};frac_noise={frac};k_motif={k};multi_query={multi};"
             f"noise_vocab={noise_vocab};v_motif={v};vocab={vocab}")
    d, p = Sample(canon, seed, split, index), float(frac)
    pad = vocab - 1 if multi else vocab - 2
    R = vocab - (1 if multi else 2) - noise_vocab
    nk = R // 2
    nv = R - nk
    pk = k if longest else 1 + d.U(5, 0, k)
    pv = 1 + d.U(5, 1, v)
    probe = tuple(d.pick(6, nk, pk))
    value_of = {probe: [nk + x for x in d.pick(7, nv, pv)]}
    bound = L - (pk + pv) - (k + v)
    probe_begin = d.U(5, 2, bound - (k + v))
    x, scored, seen, it = [], [], set(), 0

    def append(key):
        x.extend(key)
        if key in seen and multi:
            scored.extend(range(len(x), len(x) + len(value_of[key])))
        seen.add(key)
        x.extend(value_of[key])

    while len(x) < bound:
        kl = k if longest else 1 + d.U(1, it, k)
        vl = 1 + d.U(2, it, v)
        if len(x) >= probe_begin and probe not in seen:
            append(probe)
        elif d.B(8, it, p):
            x.extend(R + d.U(9, 64 * it + q, noise_vocab) for q in range(kl + vl))
        else:
            key = tuple(d.pick(3, nk, kl, 16 * it))
            if key not in value_of:
                value_of[key] = [nk + y for y in d.pick(4, nv, vl, 16 * it)]
            append(key)
        it += 1
    if not multi:
        x.append(vocab - 1)
    x.extend(probe)
    scored.extend(range(len(x), len(x) + pv))
    x.extend(value_of[probe])
    shift = L + 1 - len(x)
    x = [pad] * shift + x
    labels = [IGNORE] * L
    for t in scored:
        labels[shift + t - 1] = x[shift + t]
    return show(f"{canon} seed {seed} split {split} {'longest' if longest else 'uniform'}", x[:L], labels)


def mad_memorization(L, vocab, noise_vocab, frac, seed, split, map_seed=12345):
    d = Sample(f"mad_memorization;L={L};frac_noise={frac};noise_vocab={noise_vocab};vocab={vocab}",
               seed, split)
    R = vocab - 1 - noise_vocab
    nk = R // 2
    nv = R - nk
    m = Sample(f"mad_memorization.map;noise_vocab={noise_vocab};vocab={vocab}", map_seed, 0)
    value_of = [nk + x for x in m.pick(0, nv, nk)]
    n = L // 2
    kept = d.U(0, 0, n)
    x, labels = [], []
    for t in range(n):
        if d.B(1, t, float(frac)) and t != kept:
            x += [R + d.U(2, 2 * t + i, noise_vocab) for i in range(2)]
            labels += [IGNORE, IGNORE]
        else:
            key = d.U(3, t, nk)
            x += [key, vocab - 1]
            labels += [IGNORE, value_of[key]]
    return show(f"mad_memorization L {L} vocab {vocab} noise {noise_vocab} {frac}", x, labels)


def mad_compression(L, vocab, noise_vocab, frac, seed, split):
    d = Sample(f"mad_compression;L={L};frac_noise={frac};noise_vocab={noise_vocab};vocab={vocab}",
               seed, split)
    R = vocab - 1 - noise_vocab
    x, labels = [], []
    for t in range(L - 1):
        noise = d.B(1, t, float(frac))
        x.append(R + d.U(2, t, noise_vocab) if noise else d.U(0, t, R))
        labels.append(IGNORE if noise else x[-1])
    return show(f"mad_compression L {L} vocab {vocab} noise {noise_vocab} {frac}", x + [vocab - 1],
         labels + [vocab - 1])


def mad_copying(L, vocab, K, seed, split):
    d = Sample(f"mad_copying;K={K};L={L};vocab={vocab}", seed, split)
    data = [d.U(0, g, vocab - 2) for g in range(K)]
    blank, copy = vocab - 2, vocab - 1
    x = data + [blank] * (L - 2 * K - 1) + [copy] + [blank] * K
    return show(f"mad_copying L {L} vocab {vocab} K {K}", x, [IGNORE] * (L - K) + data)


def continuous_mqar(N, kv, passes, seed, split, per_sequence=1, map_seed=12345):
    d = Sample(f"continuous_mqar;N={N};kv={kv};passes={passes};per_sequence_mapping={per_sequence}",
               seed, split)
    m = d if per_sequence else Sample(f"continuous_mqar.map;N={N};kv={kv}", map_seed, 0)
    keys = m.pick(0, N // 2, kv)
    values = [N // 2 + v for v in m.pick(1, N - N // 2, kv)]
    mapping = m.pick(2, kv, kv)
    x, labels = [], []
    for p in range(passes):
        for j in d.pick(16 + p, kv, kv):
            x += [keys[j], values[mapping[j]]]
            labels += [IGNORE, IGNORE]
    for j in d.pick(8, kv, kv):
        x += [keys[j], N]
        labels += [IGNORE, values[mapping[j]]]
    return show(f"continuous_mqar N {N} kv {kv} passes {passes} per_sequence {per_sequence}", x, labels)


def str_copy(variant, A, lo, hi, context, n, answer, packed, seed, split, index=0):
    canon = (f"str_copy;A={A};context={context};length_answer={answer};max_len={hi};min_len={lo};"
             f"n={n};packed={packed};variant={variant}")
    d = Sample(canon, seed, split, index)
    bos, bar, eos, pad = A, A + 1, A + 2, A + 3
    x, labels, e = [], [IGNORE] * context, 0
    while len(x) < context and (packed or e == 0):
        size = lo + d.U(0, e, hi - lo + 1)
        s = [d.U(1, e * hi + i, A) for i in range(size)]
        grams = [tuple(s[i:i + n]) for i in range(size - n + 1)]
        if variant == "duplicate_ngram":
            a, b = d.pick(2, size - 2 * n + 2, 2, 2 * e)
            a, b = (a, b - 1 + n) if a < b else (a - 1 + n, b)
            s[b:b + n] = s[a:a + n]
        if variant in ("copy", "duplicate_ngram"):
            prompt, reply = [bos] + s + [bar], s + [eos]
        else:
            num_starts = size - n - max(1, answer) + 1
            for redraw in range(11):
                start = d.U(2, e + 4096 * redraw, num_starts)
                if grams.count(grams[start]) == 1:
                    break
            start = grams.index(grams[start])
            g, after = s[start:start + n], s[start + n:]
            reply = (after if answer == -1 else after[:answer]) + [eos]
            prompt = [bos] + g + [bar] + s + [bar] if variant == "prefix_ngram" else \
                [bos] + s + [bar] + g
        begin = len(x) + len(prompt)
        x += prompt + reply
        if len(x) - 1 <= context or e == 0:
            for t in range(begin, min(len(x), context + 1)):
                labels[t - 1] = x[t]
        e += 1
    return show(canon, (x + [pad] * context)[:context], labels)


def main():
    published = {
        "266b56ff229c387e237621c15af37b8d265d4f2cda268a567be81d8e6a80c31e":
            mad_fuzzy(128, 16, 3, 3, 12345, 2, True),
        "c15d8de754367572a31fc244e6f34b491156b3b67f7fdbdb405bcef8b79fbfd5":
            mad_fuzzy(128, 16, 3, 3, 12345, 0, False),
        "42ace390152574cea6cfb56fa03078c93e91c375dbd7e7fbce424147573e050c":
            mad_memorization(32, 256, 0, "0", 12345, 0),
        "f086c4a0dcfbc3fd3cff4b05a5c3174f99c85590993c2571d61765e4231c3b90":
            mad_compression(32, 16, 0, "0", 12345, 0),
    }
    for expected, derived in published.items():
        assert derived == expected

    mad_fuzzy(48, 30, 2, 3, 1, 0, False, multi=0, noise_vocab=8, frac="0.3")
    mad_fuzzy(64, 11, 2, 2, 1, 0, False, noise_vocab=4, frac="0.25")
    mad_fuzzy(128, 16, 3, 3, 987654321, 2, False, index=781)
    mad_memorization(20, 32, 9, "0.4", 1, 0)
    mad_compression(16, 12, 3, "0.5", 1, 0)
    mad_copying(20, 16, 4, 1, 0)
    continuous_mqar(20, 4, 2, 1, 0)
    continuous_mqar(20, 4, 1, 1, 0, per_sequence=0)
    str_copy("copy", 26, 5, 9, 50, 3, -1, 1, 1, 0)
    str_copy("copy", 26, 8, 8, 20, 3, -1, 0, 1, 0)
    str_copy("prefix_ngram", 5, 6, 9, 60, 3, -1, 1, 1, 0)
    str_copy("prefix_ngram", 8, 6, 9, 60, 2, 2, 1, 1, 0)
    str_copy("suffix_ngram", 5, 6, 9, 60, 3, -1, 1, 1, 0)
    str_copy("duplicate_ngram", 26, 12, 12, 28, 3, -1, 0, 1, 0)


if __name__ == "__main__":
    main()
