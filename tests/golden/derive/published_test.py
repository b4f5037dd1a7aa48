"""The derivations against vectors that were published or made by other programs.

Random123's known answers, and the golden vectors that came with the specification of the tasks: keys,
draws, power-law tables, samples. They tie the derivations to something outside this repository.

SPDX-License-Identifier: Apache-2.0
"""

import hashlib
import struct
import unittest

from families import DERIVATIONS
from sampling import Draws, derive_key, fnv1a64, mix64, philox, power_law_weights

RANDOM123 = {
    ((0, 0, 0, 0), (0, 0)): "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2): "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)):
        "d16cfe09 94fdcceb 5001e420 24126ea1",
}

# Power law a = 0.01: number of slots -> total, first digits of the SHA-256 of the table.
POWER_LAW = {
    28: (2147483661, "5d9b8105359249b4"), 24: (2147483661, "ca0607d674397048"),
    16: (2147483657, "d0342b8e947b704a"), 56: (2147483676, "4ea420739448cec9"),
    32: (2147483666, "c3d3480533cf11ab"), 112: (2147483710, "c29cb46a6088f1f4"),
    96: (2147483697, "e99d6477392918e8"), 64: (2147483677, "84ccc2c7f7bf4b91"),
    224: (2147483762, "853067b3a8f02e04"), 192: (2147483743, "a8cae8601f1be38f"),
    128: (2147483713, "a9b37bcd524ba40e"), 256: (2147483781, "9f4f415eac3b8837"),
    512: (2147483913, "2d028b121f565b3f"),
}

# SHA-256 of the inputs as little-endian int32 -> task, seed, split, sample, options.
SAMPLES = {
    "b07f208f00c4781176dad168b4a89ef7667c847b10468c1e5c5477c323d5ae1c":
        ("mqar", 123, 0, 0, dict(num_kv_pairs=4, noise="zero")),
    "31d61479749e9f865ad06cb8ee77d1b464a1d3f7793e9e2dd684863d4ae88248":
        ("mqar", 123, 0, 0, dict(num_kv_pairs=4, noise="random")),
    "b35e3adbedf4cbe57852e563cddc820123d18765950e2ad85857641f5e25f628":
        ("mqar", 123, 2, 999, dict(input_seq_len=1024, num_kv_pairs=256, noise="random")),
    "d91171eab28b7c1d0e3d55e81de0a853161de30ae7737f95172299567169936c":
        ("forgetting_mqar", 1, 0, 0, dict(input_seq_len=32, num_kv_pairs=4, num_updates=2, noise="zero")),
    "58638ea46a53025ab834b460c3c05bfc05fd8635b954a10f74b7d51becad740d":
        ("compositional_mqar", 1, 0, 0, dict(vocab_size=150, input_seq_len=30, num_kv_pairs=4, noise="zero")),
    "5ecab3ba798a0f414f341dc8514cbae0a4f0eef7b5a16adc6d20ffdd76ee4e9c": ("mad_icr", 12345, 2, 0, {}),
    "35ad1ec0c725f4d23f15de9faacc6cfdf5ea32960af73b62ce9d764bbe921df4":
        ("mad_icr", 12345, 2, 0, dict(vocab_size=32, noise_vocab_size=16, frac_noise=0.2)),
    "e752898023fd77d83c4a1cbe9dbe49bd56505c49973964030df1e461cd09433a":
        ("mad_icr", 12345, 2, 0, dict(input_seq_len=16, multi_query=False)),
    "266b56ff229c387e237621c15af37b8d265d4f2cda268a567be81d8e6a80c31e":
        ("mad_fuzzy", 12345, 2, 0, dict(key_length="longest")),
    "c15d8de754367572a31fc244e6f34b491156b3b67f7fdbdb405bcef8b79fbfd5": ("mad_fuzzy", 12345, 0, 0, {}),
    "42ace390152574cea6cfb56fa03078c93e91c375dbd7e7fbce424147573e050c": ("mad_memorization", 12345, 0, 0, {}),
    "f086c4a0dcfbc3fd3cff4b05a5c3174f99c85590993c2571d61765e4231c3b90": ("mad_compression", 12345, 0, 0, {}),
    "38c26f2075fbac9dd3137e04cc00107c1e50e2049222ada2191c2ed33e67b590":
        ("mad_selective_copying", 12345, 0, 0, {}),
    "304067428d2ebdfb8fdab9f481c2def18f6dfc033ed558853068cb6a57558aa0": ("selective_copying", 1, 0, 0, {}),
    "17ae1424a1867a67d0a43ec83ca2675623d4b30628164439ed0035186902d41a":
        ("selective_copying", 1, 0, 0, dict(vocab_size=10, num_tokens_to_copy=5, prefix_len=15)),
    "11d960aff7d7fb13ee77f7204a6aec7e6d3bc8b4bfb39eafde6809e6c29cf900":
        ("hint_recall", 1, 0, 0, dict(vocab_size=64, input_seq_len=20)),
    "873f78ceeb41b0f43cbd9b1d6cf6cea394d7bdabe9db40e7da91a1721cb72447": ("hint_recall", 1, 0, 0, {}),
    "0b9f9040fcd6429ed1abc902f85215969487e1b9f3d40f411fb3539a7fc4513f":
        ("induction_heads", 1, 0, 0, dict(input_seq_len=24, prefix_len=10)),
    "a46705afe45d6894861fbbb69565cab178baeef9bbdd78e8fde4e106eb1b711e":
        ("group_word", 1, 0, 0, dict(group="S5", input_seq_len=12)),
    "90bc6aa96c82508c486d30fec755230249558bd50888a54214149eed11921f26":
        ("group_word", 1, 0, 0, dict(group="A5", input_seq_len=12)),
}


def numbers(text):
    return [int(word) for word in text.split()]


class Published(unittest.TestCase):
    def setUp(self):
        self.draws = Draws("test", 0, 0)

    def test_philox(self):
        for (counter, key), words in RANDOM123.items():
            self.assertEqual(" ".join(f"{word:08x}" for word in philox(counter, key)), words)

    def test_many_counters_at_once_are_as_one_by_one(self):
        draws = Draws("test", 0, 0, 2**32 + 5)
        for first, count in ((0, 1), (3, 9), (1000, 513)):
            one_by_one = [draws.W(7, j) for j in range(first, first + count)]
            self.assertEqual(list(draws.words(7, first, count)), one_by_one)

    def test_keys(self):
        self.assertEqual(fnv1a64(""), 0xCBF29CE484222325)
        self.assertEqual(fnv1a64("foobar"), 0x85944171F73967E8)
        self.assertEqual(mix64(1), 0x5692161D100B05E5)
        mqar = "mqar;L=64;kv=4;passes=1;power_a=0.01;vocab=8192"
        for canon, seed, split, key in (("test", 0, 0, (0xA1512017, 0x4FE323B2)),
                                        (mqar, 123, 0, (0x9BEFBA0E, 0xC8036ADC)),
                                        (mqar, 123, 2, (0x9112A297, 0x915BCC8C))):
            self.assertEqual(derive_key(canon, seed, split), key)

    def test_draws(self):
        large = Draws("test", 0, 0, 2**32 + 5)
        self.assertEqual([large.W(0, j) for j in range(4)], [0xF1922F97, 0x677A9877, 0x699BA250, 0xA5906A60])
        draws = self.draws
        self.assertEqual(draws.U_range(0, 0, 12, 10), numbers("4 8 9 6 7 3 6 7 6 5 1 2"))
        rejected = numbers("1403348295 2535976141 2044011934 1995043612 2985584176 1119885839 2096045915 2145855063")
        self.assertEqual(draws.U_range(0, 0, 8, 3000000000), rejected)
        self.assertEqual([draws.U(0, j, 3000000000) for j in range(8)], rejected)
        self.assertEqual(draws.U_range(1, 0, 8, 2147483649), numbers(
            "1082016634 395160100 2051737601 255912006 1331520900 131916718 1581698315 784254903"))
        self.assertEqual("".join(str(int(bit)) for bit in draws.B_range(2, 20, 0.2)), "00000011000010001010")

    def test_choices(self):
        draws = self.draws
        self.assertEqual(draws.pick(3, 4095, 10), numbers("3065 1818 261 1480 1777 3949 1004 3357 3136 1545"))
        self.assertEqual(draws.pick(4, 5, 5), numbers("1 4 2 3 0"))
        self.assertEqual(draws.shuffle(6, 12), numbers("5 4 10 11 1 6 0 7 3 8 2 9"))
        table = power_law_weights(28, 0.01)
        self.assertEqual(draws.wpick(8, table, 4), numbers("15 10 6 0"))
        self.assertEqual(draws.wpick(9, table, 28), numbers(
            "0 1 7 4 10 6 23 20 22 12 2 5 8 3 15 18 11 16 25 27 9 19 24 13 26 14 21 17"))

    def test_power_law_tables(self):
        for num_slots, (total, digits) in POWER_LAW.items():
            table = power_law_weights(num_slots, 0.01)
            self.assertEqual(sum(table), total)
            self.assertEqual(hashlib.sha256(struct.pack(f"<{num_slots}I", *table)).hexdigest()[:16], digits)

    def test_samples(self):
        for expected, (task, seed, split, index, options) in SAMPLES.items():
            derivation = DERIVATIONS[task]
            (sample,) = derivation.samples(options, seed, split, index, 1)
            packed = struct.pack(f"<{len(sample.inputs)}i", *sample.inputs)
            self.assertEqual(hashlib.sha256(packed).hexdigest(), expected, derivation.canon(options))


if __name__ == "__main__":
    unittest.main()
