"""Copying: selective_copying, copying_lag, str_copy.

SPDX-License-Identifier: Apache-2.0
"""

from sample import Sample, count_bucket, decile_bucket, task


@task("selective_copying;M={num_tokens_to_copy};alphabet={vocab_size};prefix={prefix_len};reverse={reverse};"
      "variable={variable}")
def selective_copying(draws, vocab_size=16, num_tokens_to_copy=16, prefix_len=4112, variable=True, reverse=False):
    m = num_tokens_to_copy
    places = sorted(draws.pick(0, prefix_len, m)) if variable else list(range(m))
    data = [1 + token for token in draws.U_range(1, 0, m, vocab_size - 2)]
    inputs = [0] * prefix_len + [vocab_size - 1] * m
    for place, token in zip(places, data):
        inputs[place] = token
    order = list(zip(places, data))[:: -1 if reverse else 1]
    answers = list(enumerate(order, prefix_len))
    return Sample(inputs, {t: token for t, (_, token) in answers}, {
        "target_index": {t: count_bucket(t - prefix_len) for t, _ in answers},
        "distance_from_end": {t: decile_bucket(prefix_len - 1 - place, prefix_len) for t, (place, _) in answers},
    })


@task("copying_lag;L={input_seq_len};M={lag};alphabet={vocab_size}")
def copying_lag(draws, vocab_size=10, input_seq_len=110, lag=10):
    inputs = [1 + token for token in draws.U_range(0, 0, input_seq_len, vocab_size - 2)]
    labels = dict(enumerate(([0] * lag + inputs)[:input_seq_len]))
    return Sample(inputs, labels, {"part": {t: "zeros" if t < lag else "data" for t in labels}})


@task("str_copy;A={alphabet_size};context={context_len};length_answer={length_answer};max_len={max_len};"
      "min_len={min_len};n={n_gram};packed={packed};variant={variant}")
def str_copy(draws, variant="copy", alphabet_size=26, min_len=20, max_len=50, context_len=220, n_gram=3,
             length_answer=-1, packed=True):
    begin, bar, end, pad = range(alphabet_size, alphabet_size + 4)
    is_lookup = variant in ("prefix_ngram", "suffix_ngram")
    tokens, labels, target = [], {}, set()
    slices = {"answer_index": {}, "string_len": {}, "end_mark": {}}
    example = 0
    while len(tokens) < context_len and (packed or example == 0):
        size = min_len + draws.U(0, example, max_len - min_len + 1)
        s = draws.U_range(1, example * max_len, example * max_len + size, alphabet_size)
        if variant == "duplicate_ngram":
            double_an_ngram(draws, s, n_gram, example)
        if is_lookup:
            start = start_of_ngram(draws, s, n_gram, length_answer, example)
            g, rest = s[start : start + n_gram], s[start + n_gram :]
            answer = (rest if length_answer == -1 else rest[:length_answer]) + [end]
            prompt = [begin, *g, bar, *s, bar] if variant == "prefix_ngram" else [begin, *s, bar, *g]
        else:
            prompt, answer = [begin, *s, bar], [*s, end]
        tokens += prompt
        first = len(tokens) - 1  # what is read before the first token of the answer
        tokens += answer
        is_whole = len(tokens) - 1 <= context_len  # the last token is never read
        if is_whole or example == 0:
            target = set()
            for i, token in enumerate(answer[: context_len - first]):
                labels[first + i] = token
                target.add(first + i)
                slices["answer_index"][first + i] = count_bucket(i)
                slices["string_len"][first + i] = count_bucket(size)
                slices["end_mark"][first + i] = "yes" if token == end else "no"
        example += 1
    inputs = (tokens + [pad] * context_len)[:context_len]
    return Sample(inputs, labels, slices, target)


def double_an_ngram(draws, s, n, example):
    """Overwrites one n-gram of s by another one."""
    source, place = draws.pick(2, len(s) - 2 * n + 2, 2, 2 * example)
    if source < place:
        place += n - 1
    else:
        source += n - 1
    s[place : place + n] = s[source : source + n]


def start_of_ngram(draws, s, n, length_answer, example):
    grams = [tuple(s[i : i + n]) for i in range(len(s) - n + 1)]
    num_starts = len(s) - n - max(1, length_answer) + 1
    for redraw in range(11):
        start = draws.U(2, example + 4096 * redraw, num_starts)
        if grams.count(grams[start]) == 1:
            return start
    return grams.index(grams[start])
