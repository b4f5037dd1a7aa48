"""The tasks of MAD: mad_icr, mad_fuzzy, mad_memorization, mad_compression, mad_selective_copying.

SPDX-License-Identifier: Apache-2.0
"""

from sample import Sample, count_bucket, decile_bucket, occurrence_bucket, task
from sampling import Draws


@task("mad_icr;L={input_seq_len};frac_noise={frac_noise};multi_query={multi_query};"
      "noise_vocab={noise_vocab_size};vocab={vocab_size}")
def mad_icr(draws, vocab_size=16, input_seq_len=128, multi_query=True, noise_vocab_size=0, frac_noise=0.0):
    real = vocab_size - noise_vocab_size - (0 if multi_query else 1)
    num_keys, num_slots = real // 2, input_seq_len // 2 - 1
    always_pair = draws.U(0, 0, num_slots)
    is_noise = draws.B_range(1, num_slots, frac_noise)
    key_of_slot = draws.U_range(3, 0, num_slots, num_keys)
    value_of = [num_keys + value for value in draws.U_range(4, 0, num_keys, real - num_keys)]

    inputs, labels = [], {}
    slices = {"occurrence": {}, "slots_since_previous": {}, "final_probe": {}}
    slots_of = {}  # key -> where it was shown

    def show(key, slot, is_probe=False):
        earlier = slots_of.setdefault(key, [])
        inputs.append(key)
        at = len(inputs) - 1
        if is_probe or (multi_query and earlier):
            labels[at] = value_of[key]
            slices["occurrence"][at] = occurrence_bucket(len(earlier) + 1)
            slices["slots_since_previous"][at] = count_bucket(slot - earlier[-1])
        if is_probe:
            slices["final_probe"][at] = "final"
        earlier.append(slot)

    for slot, key in enumerate(key_of_slot):
        if is_noise[slot] and slot != always_pair:
            inputs += [real + draws.U(2, 2 * slot + i, noise_vocab_size) for i in range(2)]
        else:
            show(key, slot)
            inputs.append(value_of[key])
    if not multi_query:
        inputs.append(vocab_size - 1)
    distinct = list(slots_of)
    show(distinct[draws.U(5, 0, len(distinct))], num_slots, is_probe=True)
    return Sample(inputs, labels, slices)


@task("mad_fuzzy;L={input_seq_len};frac_noise={frac_noise};k_motif={k_motif_size};multi_query={multi_query};"
      "noise_vocab={noise_vocab_size};v_motif={v_motif_size};vocab={vocab_size}")
def mad_fuzzy(draws, vocab_size=16, input_seq_len=128, multi_query=True, noise_vocab_size=0, frac_noise=0.0,
              k_motif_size=3, v_motif_size=3, key_length="uniform"):
    real = vocab_size - noise_vocab_size - (1 if multi_query else 2)
    num_keys, longest_pair = real // 2, k_motif_size + v_motif_size

    def key_size(stream, j):
        return k_motif_size if key_length == "longest" else 1 + draws.U(stream, j, k_motif_size)

    def draw_key(stream, size, base):
        return tuple(draws.pick(stream, num_keys, size, base))

    def draw_value(stream, size, base):
        return [num_keys + value for value in draws.pick(stream, real - num_keys, size, base)]

    probe = draw_key(6, key_size(5, 0), 0)
    value_of = {probe: draw_value(7, 1 + draws.U(5, 1, v_motif_size), 0)}
    bound = input_seq_len - len(probe) - len(value_of[probe]) - longest_pair
    probe_begin = draws.U(5, 2, bound - longest_pair)

    tokens, labels = [], {}
    slices = {"occurrence": {}, "pairs_since_previous": {}, "final_probe": {}, "value_len": {}}
    shown = []  # keys of the pairs so far

    def show(key, is_probe=False):
        occurrence, value = shown.count(key) + 1, value_of[key]
        shown.append(key)
        tokens.extend(key)
        for at, token in enumerate(value, len(tokens) - 1):
            if is_probe or (multi_query and occurrence > 1):
                labels[at] = token
                slices["occurrence"][at] = occurrence_bucket(occurrence)
                slices["pairs_since_previous"][at] = count_bucket(1 + shown[-2::-1].index(key))
                slices["value_len"][at] = value_len_bucket(len(value))
            if is_probe:
                slices["final_probe"][at] = "final"
        tokens.extend(value)

    item = 0
    while len(tokens) < bound:
        sizes = key_size(1, item), 1 + draws.U(2, item, v_motif_size)
        if len(tokens) >= probe_begin and probe not in shown:
            show(probe)
        elif draws.B(8, item, frac_noise):
            tokens += [real + draws.U(9, 64 * item + q, noise_vocab_size) for q in range(sum(sizes))]
        else:
            key = draw_key(3, sizes[0], 16 * item)
            if key not in value_of:
                value_of[key] = draw_value(4, sizes[1], 16 * item)
            show(key)
        item += 1
    if not multi_query:
        tokens.append(vocab_size - 1)
    target = len(tokens) + len(probe) - 1
    show(probe, is_probe=True)

    pads = input_seq_len + 1 - len(tokens)
    inputs = [vocab_size - (1 if multi_query else 2)] * pads + tokens[:-1]

    def shifted(by_position):
        return {pads + at: entry for at, entry in by_position.items()}

    return Sample(inputs, shifted(labels), {name: shifted(s) for name, s in slices.items()},
                  target={at for at in shifted(labels) if at >= pads + target})


def value_len_bucket(size):
    return str(size) if size <= 3 else "4-7" if size < 8 else "8+"


@task("mad_memorization;L={input_seq_len};frac_noise={frac_noise};noise_vocab={noise_vocab_size};vocab={vocab_size}")
def mad_memorization(draws, vocab_size=256, input_seq_len=32, noise_vocab_size=0, frac_noise=0.0, map_seed=12345):
    real, num_slots = vocab_size - 1 - noise_vocab_size, input_seq_len // 2
    num_keys = real // 2
    shared = Draws(f"mad_memorization.map;noise_vocab={noise_vocab_size};vocab={vocab_size}", map_seed, 0)
    value_of = [num_keys + value for value in shared.pick(0, real - num_keys, num_keys)]
    always_key = draws.U(0, 0, num_slots)
    inputs, labels = [], {}
    for slot, is_noise in enumerate(draws.B_range(1, num_slots, frac_noise)):
        if is_noise and slot != always_key:
            inputs += [real + draws.U(2, 2 * slot + i, noise_vocab_size) for i in range(2)]
        else:
            key = draws.U(3, slot, num_keys)
            inputs += [key, vocab_size - 1]
            labels[2 * slot + 1] = value_of[key]
    return Sample(inputs, labels)


@task("mad_compression;L={input_seq_len};frac_noise={frac_noise};noise_vocab={noise_vocab_size};vocab={vocab_size}")
def mad_compression(draws, vocab_size=16, input_seq_len=32, noise_vocab_size=0, frac_noise=0.0):
    last, num_data = input_seq_len - 1, vocab_size - 1 - noise_vocab_size
    inputs = draws.U_range(0, 0, last, num_data)
    noisy = [t for t, is_noise in enumerate(draws.B_range(1, last, frac_noise)) if is_noise]
    for t in noisy:
        inputs[t] = num_data + draws.U(2, t, noise_vocab_size)
    inputs.append(vocab_size - 1)
    labels = {t: token for t, token in enumerate(inputs) if t not in noisy}
    return Sample(inputs, labels, {
        "token": {t: "compression" if t == last else "data" for t in labels},
        "position": {t: decile_bucket(t, input_seq_len) for t in labels},
    })


def mad_copying_canon(options):
    name = "mad_selective_copying" if options["selective"] else "mad_copying"
    return name + ";K={num_tokens_to_copy};L={input_seq_len};vocab={vocab_size}"


@task(mad_copying_canon)
def mad_selective_copying(draws, vocab_size=16, input_seq_len=256, num_tokens_to_copy=16, selective=True):
    k, blank, copy = num_tokens_to_copy, vocab_size - 2, vocab_size - 1
    data = draws.U_range(0, 0, k, vocab_size - 2)
    num_blanks = input_seq_len - 2 * k - 1
    blanks_before = [0] * k
    for gap in draws.U_range(1, 0, num_blanks, k) if selective else []:
        blanks_before[gap] += 1

    inputs, places = [], []
    for token, blanks in zip(data, blanks_before):
        inputs += [blank] * blanks
        places.append(len(inputs))
        inputs.append(token)
    copy_at = k + num_blanks
    inputs += [blank] * (copy_at - len(inputs)) + [copy] + [blank] * k
    labels = {copy_at + 1 + m: token for m, token in enumerate(data)}
    return Sample(inputs, labels, {
        "target_index": {t: count_bucket(m) for m, t in enumerate(labels)},
        "distance_from_end": {t: decile_bucket(copy_at - 1 - place, copy_at) for t, place in zip(labels, places)},
    })
