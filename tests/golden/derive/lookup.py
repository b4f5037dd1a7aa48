"""One association among many: hint_recall, induction_heads, phonebook_tok.

SPDX-License-Identifier: Apache-2.0
"""

from sample import Sample, decile_bucket, task


@task("hint_recall;L={input_seq_len};vocab={vocab_size}")
def hint_recall(draws, vocab_size=8192, input_seq_len=128, hint=True, hint_prefix=1, target_dup=1, depth_percent=-1,
                noise_vocab_size=0, frac_noise=0.0):
    num_keys, n = vocab_size // 2, (input_seq_len - 2) // 2
    target = draws.U(0, 0, n) if depth_percent < 0 else depth_percent * (n - 1) // 100
    h = draws.U(1, 0, num_keys)
    keys = [key + (key >= h) for key in draws.U_range(3, 0, n, num_keys - 1)]
    values = [num_keys + value for value in draws.U_range(4, 0, num_keys, vocab_size - num_keys)]
    others = [t for t in range(n) if t != target]
    hints = [keys[others[i]] for i in draws.pick(5, n - 1, hint_prefix - 1)]
    hints.insert(draws.U(6, 0, hint_prefix), h)
    targets = {target, *(others[i] for i in draws.pick(7, n - 1, target_dup - 1))}

    inputs = hints if hint else []
    for t, is_noise in enumerate(draws.B_range(8, n, frac_noise)):
        if t in targets:
            inputs += [h, values[h]]
        elif is_noise:
            inputs += [vocab_size + draws.U(9, 2 * t + i, noise_vocab_size) for i in range(2)]
        else:
            inputs += [keys[t], values[keys[t]]]
    inputs.append(h)
    last = len(inputs) - 1
    return Sample(inputs, {last: values[h]}, {"depth": {last: decile_bucket(min(targets), n)}})


def num_places(input_seq_len, prefix_len, **_):
    """Where S may stand; prefix_len -1 leaves out only what memory and question need."""
    return input_seq_len - 2 if prefix_len == -1 else prefix_len


@task(lambda options: f"induction_heads;L={{input_seq_len}};prefix={num_places(**options)};vocab={{vocab_size}}")
def induction_heads(draws, vocab_size=16, input_seq_len=256, prefix_len=-1):
    last = input_seq_len - 1
    p = draws.U(0, 0, num_places(input_seq_len, prefix_len))
    memory = draws.U(1, 0, vocab_size)
    inputs = draws.U_range(2, 0, input_seq_len, vocab_size)
    inputs[p], inputs[p + 1], inputs[last] = vocab_size, memory, vocab_size
    return Sample(inputs, {last: memory}, {"depth": {last: decile_bucket(p, input_seq_len)}})


@task("phonebook_tok;n={num_entries}")
def phonebook_tok(draws, num_entries=20):
    names = [(12 + name // 1000, 1012 + name % 1000) for name in draws.pick(0, 10**6, num_entries)]
    digits = draws.U_range(1, 0, 10 * num_entries, 10)
    numbers = [digits[10 * e :][:10] for e in range(num_entries)]
    asked = draws.U(2, 0, num_entries)
    inputs = [token for name, number in zip(names, numbers) for token in (*name, 10, *number, 11)]
    first = len(inputs) + 2
    inputs += [*names[asked], 10, *numbers[asked][:-1]]
    labels = dict(enumerate(numbers[asked], first))
    return Sample(inputs, labels, {
        "depth": {t: decile_bucket(asked, num_entries) for t in labels},
        "digit_index": {t: str(t - first) for t in labels},
    }, target=set(labels))
