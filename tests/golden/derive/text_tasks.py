#!/usr/bin/env python3
"""Golden prompts of the text tasks, derived a second time from their pages (tasks/*/*.md) alone.

Shares no code with the program: its own Philox, BPE, templates and fitting, with every length found
by encoding the whole prompt again. Prints one line a case, `<name> <tokens> <sha256>`, where the hash
is of prompt, answer prefix and answer. tasks/text/text_golden_test.cc compares the program with them.

    tests/golden/derive/text_tasks.py > tests/golden/text_prompts.txt   # needs the program `zstd`

SPDX-License-Identifier: Apache-2.0
"""

import functools
import hashlib
import math
import subprocess

DATA = "tasks/text/data/"
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
M32, M64 = 2**32 - 1, 2**64 - 1

# --- random numbers ---------------------------------------------------------------------------------


def philox(c, k):
    c, k = list(c), list(k)
    for r in range(10):
        if r:
            k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & M32, (p >> 32) ^ c[3] ^ k[1], p & M32]
    return c


def mix64(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


class Stream:
    def __init__(self, canon, seed, split, index):
        h = 0xCBF29CE484222325
        for b in canon.encode():
            h = (h ^ b) * 0x100000001B3 & M64
        g = 0x9E3779B97F4A7C15
        h = mix64((h + g) & M64)
        h = mix64(((h ^ seed) + g) & M64)
        h = mix64(((h ^ split) + g) & M64)
        self.key, self.index = (h & M32, h >> 32), index

    def block(self, c0, c1):
        return philox((c0, c1, self.index & M32, self.index >> 32), self.key)

    def word(self, s, j):
        return self.block(j // 4, s)[j % 4]

    def uniform(self, s, j, n):
        threshold = (2**32 - n) % n
        m = self.word(s, j) * n
        attempt = 0
        while m & M32 < threshold:
            attempt += 1
            for w in self.block(j, s + (attempt << 16)):
                m = w * n
                if m & M32 >= threshold:
                    break
        return m >> 32

    def pick(self, s, n, k, base=0):
        a, out = {}, []
        for t in range(k):
            r = t + self.uniform(s, base + t, n - t)
            out.append(a.get(r, r))
            a[r] = a.get(t, t)
        return out

    def bernoulli(self, s, j, p):
        return self.word(s, j) < math.floor(p * 2**32)


def redraw(first, step, taken, draw):
    e = first
    while draw(e) in taken:
        e += step
    return draw(e)


# --- data and the tokenizer -------------------------------------------------------------------------


@functools.cache
def text(name):
    return subprocess.run(["zstd", "-dcq", DATA + name + ".txt.zst"], check=True, capture_output=True).stdout.decode()


@functools.cache
def lines(name):
    return [line for line in text(name).split("\n") if line]


@functools.cache
def pieces():
    """{piece: id} of sqtok, by reading the protocol buffer's first field again and again."""
    data, at, table = open(DATA + "sqtok.model", "rb").read(), 0, {}

    def varint(i):
        value = shift = 0
        while True:
            value |= (data[i] & 127) << shift
            shift += 7
            i += 1
            if data[i - 1] < 128:
                return value, i

    while data[at] == 0x0A:
        size, at = varint(at + 1)
        length, begin = varint(at + 1)
        table[data[begin : begin + length].decode()] = len(table)
        at += size
    return table


@functools.cache
def encode_word(word):
    """Merges the best pair, the piece of lowest id, leftmost first; rest as bytes."""
    table, symbols = pieces(), list(word)
    while True:
        merges = [(table[a + b], i) for i, (a, b) in enumerate(zip(symbols, symbols[1:])) if a + b in table]
        if not merges:
            break
        _, i = min(merges)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
    count = 0
    for symbol in symbols:
        count += 1 if symbol in table else len(symbol.encode())
    return count


def count(string):
    """Tokens of sqtok: no piece has a space but at its beginning."""
    marked = string.replace(" ", " \u2581")
    return sum(encode_word(word) for word in marked.split(" ") if word)


# --- pieces that several tasks share ----------------------------------------------------------------


def english(items):
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + ", and " + items[-1]


def grid(k):
    return math.floor(100 * k / 39 + 0.5)


def budget(length, reference, answer):
    return length - max(reference, count(answer) + 1)


def largest(fits, first=0):
    n = first
    assert fits(n)
    while fits(n + 1):
        n += 1
    return n


def report(name, prompt, prefix, answer):
    digest = hashlib.sha256((prompt + prefix + answer).encode()).hexdigest()
    print(name, count(prompt + prefix), digest)


def spread(units, needles, before, joiner):
    """Units joined, needle j before unit before[j]."""
    out = []
    for m in range(len(units) + 1):
        out += [needle for needle, b in zip(needles, before) if b == m]
        out += units[m : m + 1]
    return joiner.join(out)


# --- NIAH -------------------------------------------------------------------------------------------

NOUNS = {"words": "word", "numbers": "number", "uuids": "uuid"}


def niah(name, length, haystack="kjv", k="words", v="numbers", nk=1, nv=1, nq=1, inst="original", words=2, noise=0.0):
    canon = f"niah;haystack={haystack};k_type={k};num_k={nk};num_q={nq};num_v={nv};v_type={v}"
    r = Stream(canon, 42, 2, 0)
    adj, noun = lines("adj"), lines("noun")

    def draw(s, e, kind, num_words=2, extra=0):
        if kind == "numbers":
            return str(1000000 + r.uniform(s, e, 9000000))
        if kind == "uuids":
            d = list("".join(f"{r.word(s, 4 * e + w):08x}" for w in range(4)))
            d[12], d[16] = "4", "89ab"[int(d[16], 16) & 3]
            d = "".join(d)
            return "-".join((d[:8], d[8:12], d[12:16], d[16:20], d[20:]))
        out = []
        for t in range(num_words):
            array = (adj, noun)[t % 2]
            out.append(array[r.uniform(s, 2 * e + t, len(array)) if t < 2 else r.uniform(26, extra + 8 * e + t, len(array))])
        return "-".join(out)

    def sentence(key, value):
        return f"One of the special magic {v} for {key} is: {value}."

    keys, values, needles = [], [], []
    for q in range(nk):
        keys.append(redraw(q, 64, keys, lambda e: draw(16, e, k)))
        for x in range(nv):
            values.append(redraw(q * nv + x, 1024, values, lambda e: draw(17, e, v, words)))
            needles.append((q, values[-1], sentence(keys[-1], values[-1])))
    depths = sorted(r.pick(18, 40, len(needles)))
    order = r.pick(19, len(needles), len(needles))
    asked = r.pick(20, nk, nq)
    if haystack in ("noise", "needle"):
        order = order[::-1]
    shown = [needles[i] for i in order]
    query = english([keys[q] for q in asked])
    answer = " " + english([value for q in asked for (p, value, _) in shown if p == q])
    plural = nq * nv > 1
    noun_ = v if plural else NOUNS[v]
    opening = f"Some special magic {noun_} are" if plural else f"A special magic {noun_} is"

    def before_context(kind):
        if kind == "none":
            return ""
        about = f"{noun_} for {query}" if kind == "strong" else noun_
        return f"{opening} hidden within the following text. Make sure to memorize it. I will quiz you about the {about} afterwards.\n"

    question = "What are all the" if plural else "What is the"
    question += f" special magic {noun_} for {query} mentioned in the provided text?"
    prefix = f" The special magic {noun_} for {query} mentioned in the provided text " + ("are" if plural else "is")
    sentences = lines("kjv")
    chosen = r.pick(21, len(sentences), 2000)

    def unit(m):
        if haystack == "noise":
            return NOISE
        if haystack == "needle":
            e = m
            while draw(22, e, k) in keys:
                e += 2**20
            return sentence(draw(22, e, k), draw(23, e, v, words, 2**31))
        s = chosen[m]
        if not r.bernoulli(25, s, noise):
            return sentences[s]
        number = redraw(s, 2**20, values, lambda e: str(1000000 + r.uniform(27, e, 9000000)))
        return f"{sentences[s][:-1]} ({number}){sentences[s][-1]}"

    def prompt(m, kind):
        if haystack in ("noise", "needle"):
            before, joiner = sorted(r.pick(24, m, len(needles))), "\n"
        else:
            before, joiner = [m * grid(d) // 100 for d in depths], " "
        context = spread([unit(i) for i in range(m)], [text_ for _, _, text_ in shown], before, joiner)
        return before_context(kind) + context + "\n" + question

    room = budget(length, 128, answer)
    least = len(needles) if haystack in ("noise", "needle") else 0
    m = largest(lambda m: count(prompt(m, "strong") + prefix) <= room, least)
    report(name, prompt(m, inst), prefix, answer)


# --- variable tracking ------------------------------------------------------------------------------


def vt(name, length, haystack="noise", num_chains=1, num_hops=4, example=False):
    r = Stream(f"vt;haystack={haystack};num_chains={num_chains};num_hops={num_hops}", 42, 2, 0)
    head = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"

    def draw(letters, name_stream, value_stream, n):
        names, values = [], []
        for i in range(n * (num_hops + 1)):
            names.append(
                redraw(i, 64, names, lambda e: "".join(chr(65 + r.uniform(name_stream, letters * e + c, 26)) for c in range(letters)))
            )
        for c in range(n):
            values.append(redraw(c, 64, values, lambda e: str(10000 + r.uniform(value_stream, e, 90000))))
        step = num_hops + 1
        return [(values[c], names[c * step : (c + 1) * step]) for c in range(n)]

    def statements(chain, end):
        value, names = chain
        return [f"VAR {names[0]} = {value}"] + [f"VAR {b} = VAR {a}{end}" for a, b in zip(names, names[1:])]

    def tail(chain):
        value, names = chain
        question = f"\nQuestion: Find all variables that are assigned the value {value} in the text above."
        prefix = f" Answer: According to the chain(s) of variable assignment in the text above, {len(names)} variables are assigned the value {value}, they are: "
        return question, prefix, " ".join(names)

    def in_lines(chains, n, stream):
        out = [NOISE] * n
        for c, chain in enumerate(chains):
            for j, position in enumerate(sorted(r.pick(stream, len(out), num_hops + 1, 4096 * c))):
                out.insert(position + j, statements(chain, " ")[j])
        return "\n".join(out)

    chains = draw(5, 32, 33, num_chains)
    question, prefix, answer = tail(chains[0])
    start = ""
    if example:
        chain = draw(3, 37, 38, 1)[0]
        q, p, a = tail(chain)
        n = largest(lambda n: count(head + in_lines([chain], n, 39) + q + p + a) <= 500, num_hops + 1)
        start = head + in_lines([chain], n, 39) + q + p + a + "\n\n"

    def in_text(n):
        turns = [c for c in range(num_chains) for _ in range(num_hops + 1)]
        left = [statements(chain, "") for chain in chains]
        mixed = [left[turns[t]].pop(0) + "." for t in r.pick(35, len(turns), len(turns))]
        before = [n * grid(d) // 100 for d in sorted(r.pick(34, 40, len(turns)))]
        sentences = lines("kjv")
        return spread([sentences[i] for i in r.pick(21, len(sentences), n)], mixed, before, " ")

    def prompt(n):
        context = in_lines(chains, n, 36) if haystack == "noise" else in_text(n)
        return start + head + context + question

    room = budget(length, 30, answer)
    least = num_hops + 1 if haystack == "noise" else 0
    # The answer prefix ends with a space, which is a token of its own.
    n = largest(lambda n: count(prompt(n) + prefix) <= room, least)
    report(name, prompt(n), prefix, answer)


# --- common and frequent words ----------------------------------------------------------------------


def cwe(name, length, example=True, num_cw=10):
    long = length >= 4096
    freq_cw, freq_ucw = (30, 3) if long else (6, 1)
    r = Stream(f"cwe;freq_cw={freq_cw};freq_ucw={freq_ucw};num_cw={num_cw}", 42, 2, 0)
    words = lines("cwe_words")

    def listed(drawn, fc, fu, stream):
        bag = [w for i, w in enumerate(drawn) for _ in range(fc if i < num_cw else fu)]
        return [bag[i] for i in r.pick(stream, len(bag), len(bag))]

    def numbered(items):
        return " ".join(f"{i}. {words[w]}" for i, w in enumerate(items, 1))

    head = (
        "Below is a numbered list of words. In these words, some appear more often than others. "
        "Memorize the ones that appear most often.\n"
    )
    question = f"\nQuestion: What are the {num_cw} most common words in the above list?"
    prefix = f" Answer: The top {num_cw} words that appear most often in the list are:"
    start = ""
    if example:
        drawn = r.pick(42, len(words), 40 if long else 20)
        items = listed(drawn, *((10, 3) if long else (3, 1)), 43)
        start = head + numbered(items) + question + prefix + " " + numbered(sorted(drawn[:num_cw], key=items.index)) + "\n"
    everything = r.pick(40, len(words), 2000)

    def prompt(n):
        return start + head + numbered(listed(everything[:n], freq_cw, freq_ucw, 41)) + question

    def answer(n):
        items = listed(everything[:n], freq_cw, freq_ucw, 41)
        return " " + numbered(sorted(everything[:num_cw], key=items.index))

    room = budget(length, 120, answer(num_cw))
    n = largest(lambda n: count(prompt(n) + prefix) <= room, num_cw)
    report(name, prompt(n), prefix, answer(n))


def fwe(name, length, alpha=2.0):
    r = Stream("fwe;alpha=2", 42, 2, 0)
    zeta = math.pi**2 / 6
    words = ["..."]
    for i in range(1, (length - 50) // 50):
        words.append(redraw(i, 2**20, words, lambda e: "".join(chr(97 + r.uniform(44, 6 * e + c, 26)) for c in range(6))))
    head = (
        "Read the following coded text and track the frequency of each coded word. "
        "Find the three most frequently appeared coded words. "
    )
    question = (
        "\nQuestion: Do not provide any explanation. Please ignore the dots '....'. "
        "What are the three most frequently appeared words in the above coded text?"
    )
    prefix = " Answer: According to the coded text above, the three most frequently appeared words are:"
    answer = " " + english(words[1:4])

    def prompt(n):
        bag = [w for rank, w in enumerate(words, 1) for _ in range(math.floor(n * rank**-alpha / zeta))]
        return head + " ".join(bag[i] for i in r.pick(45, len(bag), len(bag))) + question

    room = budget(length, 50, answer)
    report(name, prompt(largest(lambda n: count(prompt(n) + prefix) <= room, 80)), prefix, answer)


# --- passkey and phonebook --------------------------------------------------------------------------


def passkey(name, length, style="classic", digits=5, chars=None):
    r = Stream(f"passkey;digits={digits};len={chars or length};style={style}", 42, 2, 0)
    if style == "blocks":
        key = f"{r.uniform(48, 0, 10**digits):0{digits}d}"
        head = "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it.\n\n"
        question, prefix = "\nWhat is the pass key?", " The passkey is"

        def prompt(n):
            blocks = [NOISE] * n
            blocks[r.uniform(49, 0, n)] = f"The passkey is {key}. Remember it. {key} is the passkey."
            return head + "".join(block + "\n" for block in blocks) + question

        n = largest(lambda n: count(prompt(n) + prefix) <= budget(length, 5, " " + key), 1)
        report(name, prompt(n), prefix, " " + key)
        return
    key = str(1 + r.uniform(48, 0, 50000) if digits == 0 else 10 ** (digits - 1) + r.uniform(48, 0, 9 * 10 ** (digits - 1)))
    first = (
        "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. "
        "I will quiz you about the important information there."
    )
    middle = f"The pass key is {key}. Remember it. {key} is the pass key."
    prefix = " The pass key is"
    sentences = [s + "." for s in NOISE.rstrip(".").split(". ")]

    def filler(n):
        if chars is None:
            return " ".join(sentences[i % 5] for i in range(n))
        return ((NOISE + " ") * (n // len(NOISE) + 1))[:n]

    def prompt(n):
        before = r.uniform(49, 0, n + 1)
        return "\n".join((first, filler(before), middle, filler(n - before), "What is the pass key?"))

    n = largest(lambda n: count(prompt(n) + prefix) <= budget(length, 10, " " + key)) if chars is None else chars
    report(name, prompt(n), prefix, " " + key)


def phonebook(name, low=10, high=300):
    r = Stream(f"phonebook;max={high};min={low}", 42, 2, 0)
    adj, noun = lines("adj"), lines("noun")
    n = low + r.uniform(55, 0, high - low + 1)
    names = []
    for i in range(n):
        names.append(
            redraw(
                i,
                2**20,
                names,
                lambda e: adj[r.uniform(52, 2 * e, len(adj))].capitalize() + " " + noun[r.uniform(52, 2 * e + 1, len(noun))].capitalize(),
            )
        )

    def number(e):
        return str(6 + r.uniform(53, 10 * e, 4)) + "".join(str(r.uniform(53, 10 * e + c, 10)) for c in range(1, 10))

    def line(e):
        return f"{names[e]}: {number(e)}"

    a, b, asked = r.pick(54, n, 3)
    book = "\n".join(line(e) for e in range(n))
    report(name, f"{book}\n\n{line(a)}\n{line(b)}", f"\n\n{names[asked]}:", " " + number(asked))


def main():
    niah("niah/strong", 1024, inst="strong")  # of the specification: cf6655a3... with the answer left out
    niah("niah/none-word", 1024, v="words", inst="none")
    niah("niah/noise", 1024, haystack="noise")
    niah("niah/needle-words", 1024, haystack="needle", v="words", words=4)
    niah("niah/needle-uuids", 2048, haystack="needle", k="uuids", v="uuids")
    niah("niah/multikey", 1024, nk=4)
    niah("niah/multivalue", 1024, nv=4)
    niah("niah/multiquery", 1024, nk=4, nq=4)
    niah("niah/multi-noise", 1024, haystack="noise", nk=3, nv=2, nq=2)
    niah("niah/digit-noise", 1024, noise=0.5)
    vt("vt/noise", 1024)
    vt("vt/chains", 2048, num_chains=3, num_hops=2)
    vt("vt/kjv", 2048, haystack="kjv", num_chains=2, num_hops=3)
    vt("vt/example", 2048, example=True)
    cwe("cwe/short", 1024)
    cwe("cwe/long", 4608)
    cwe("cwe/no-example", 1024, example=False, num_cw=5)
    fwe("fwe", 1024)
    passkey("passkey/sentence", 1024)
    passkey("passkey/character", 1024, digits=0, chars=2000)
    passkey("passkey/blocks", 1024, style="blocks")
    phonebook("phonebook")


if __name__ == "__main__":
    main()
