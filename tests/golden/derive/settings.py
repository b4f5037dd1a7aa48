"""Settings besides the presets: every option at least once at a value that is not its default.

A setting is (task, options); they are odd on purpose: sizes that share no factor with blocks of four
words, vocabularies of odd size, the least size that a rule allows.

SPDX-License-Identifier: Apache-2.0
"""

RECALL = [
    ("mqar", dict(vocab_size=65, input_seq_len=44, num_kv_pairs=5, num_passes=3, power_a=1.7,
                  noise="random_safe")),
    ("mqar", dict(vocab_size=67, input_seq_len=64, num_kv_pairs=16, noise="zero")),
    ("mqar", dict(vocab_size=1027, input_seq_len=202, num_kv_pairs=1, power_a=1.0)),
    ("forgetting_mqar", dict(vocab_size=77, input_seq_len=46, num_kv_pairs=7, num_updates=3, power_a=0.5,
                             noise="random_safe")),
    ("forgetting_mqar", dict(vocab_size=51, input_seq_len=36, num_kv_pairs=6, num_updates=6, noise="zero")),
    ("forgetting_mqar", dict(vocab_size=101, input_seq_len=30, num_kv_pairs=4, num_updates=0, power_a=2.0)),
    ("compositional_mqar", dict(vocab_size=151, input_seq_len=128, num_kv_pairs=16, power_a=0.3,
                                noise="random_safe")),
    ("compositional_mqar", dict(vocab_size=77, input_seq_len=58, num_kv_pairs=9, power_a=1.5, noise="zero")),
    ("compositional_mqar", dict(vocab_size=41, input_seq_len=38, num_kv_pairs=1)),
    ("continuous_mqar", dict(num_embeddings=21, num_kv_pairs=5, num_passes=3)),
    ("continuous_mqar", dict(num_embeddings=33, num_kv_pairs=16, num_passes=2, per_sequence_mapping=False,
                             map_seed=7)),
]

MAD = [
    ("mad_icr", dict(vocab_size=13, input_seq_len=38, multi_query=False)),
    ("mad_icr", dict(vocab_size=45, input_seq_len=62, noise_vocab_size=11, frac_noise=0.7)),
    ("mad_icr", dict(vocab_size=7, input_seq_len=4, multi_query=False, noise_vocab_size=2, frac_noise=0.99)),
    ("mad_fuzzy", dict(vocab_size=30, input_seq_len=48, multi_query=False, noise_vocab_size=8,
                       frac_noise=0.3, k_motif_size=2, v_motif_size=3)),
    ("mad_fuzzy", dict(vocab_size=11, input_seq_len=64, noise_vocab_size=4, frac_noise=0.25,
                       k_motif_size=2, v_motif_size=2)),
    ("mad_fuzzy", dict(vocab_size=41, input_seq_len=130, k_motif_size=16, v_motif_size=16,
                       key_length="longest")),
    ("mad_fuzzy", dict(vocab_size=6, input_seq_len=300, k_motif_size=1, v_motif_size=1, multi_query=False)),
    ("mad_memorization", dict(vocab_size=33, input_seq_len=21, noise_vocab_size=9, frac_noise=0.4,
                              map_seed=99)),
    ("mad_memorization", dict(vocab_size=3, input_seq_len=2)),
    ("mad_compression", dict(vocab_size=13, input_seq_len=35, noise_vocab_size=3, frac_noise=0.5)),
    ("mad_compression", dict(vocab_size=3, input_seq_len=2)),
    ("mad_selective_copying", dict(vocab_size=5, input_seq_len=43, num_tokens_to_copy=7)),
    ("mad_selective_copying", dict(vocab_size=19, input_seq_len=30, num_tokens_to_copy=4, selective=False)),
    ("mad_selective_copying", dict(vocab_size=9, input_seq_len=10, num_tokens_to_copy=1)),
]

COPYING = [
    ("selective_copying", dict(vocab_size=11, num_tokens_to_copy=5, prefix_len=23, reverse=True)),
    ("selective_copying", dict(vocab_size=3, num_tokens_to_copy=9, prefix_len=9, reverse=True,
                               variable=False)),
    ("selective_copying", dict(vocab_size=7, num_tokens_to_copy=70, prefix_len=301)),
    ("copying_lag", dict(vocab_size=7, input_seq_len=33, lag=5)),
    ("copying_lag", dict(vocab_size=3, input_seq_len=6, lag=1)),
    ("str_copy", dict(variant="copy", alphabet_size=5, min_len=5, max_len=9, context_len=51)),
    ("str_copy", dict(variant="copy", alphabet_size=7, min_len=8, max_len=8, context_len=20, packed=False)),
    ("str_copy", dict(variant="prefix_ngram", alphabet_size=5, min_len=6, max_len=9, context_len=60)),
    ("str_copy", dict(variant="prefix_ngram", alphabet_size=8, min_len=6, max_len=9, context_len=60,
                      n_gram=2, length_answer=2)),
    ("str_copy", dict(variant="suffix_ngram", alphabet_size=5, min_len=6, max_len=31, context_len=77,
                      packed=False)),
    ("str_copy", dict(variant="suffix_ngram", alphabet_size=37, min_len=6, max_len=9, context_len=60,
                      n_gram=1, length_answer=3)),
    ("str_copy", dict(variant="duplicate_ngram", alphabet_size=3, min_len=12, max_len=15, context_len=70,
                      n_gram=4)),
]

LOOKUP = [
    ("hint_recall", dict(vocab_size=63, input_seq_len=22, hint=False)),
    ("hint_recall", dict(vocab_size=63, input_seq_len=22, hint_prefix=4, target_dup=3)),
    ("hint_recall", dict(vocab_size=9, input_seq_len=42, hint_prefix=16, target_dup=5, noise_vocab_size=7,
                         frac_noise=0.6)),
    ("hint_recall", dict(vocab_size=127, input_seq_len=50, depth_percent=37)),
    ("hint_recall", dict(vocab_size=6, input_seq_len=4)),
    ("induction_heads", dict(vocab_size=5, input_seq_len=37, prefix_len=11)),
    ("induction_heads", dict(vocab_size=3, input_seq_len=4, prefix_len=1)),
    ("phonebook_tok", dict(num_entries=7)),
    ("phonebook_tok", dict(num_entries=1)),
]

STATE_TRACKING = [
    ("circuits", dict(circuit="parity", input_seq_len=37)),
    ("circuits", dict(circuit="cum_parity", input_seq_len=70)),
    ("circuits", dict(circuit="majority", input_seq_len=9)),
    ("circuits", dict(circuit="majority", input_seq_len=10)),
    ("circuits", dict(circuit="cum_majority", input_seq_len=71)),
    ("vocab_majority", dict(vocab_size=4, input_seq_len=14)),
    ("vocab_majority", dict(vocab_size=301, input_seq_len=101)),
    ("mod_arith", dict(modulus=7, expression_len=21, precedence=True, cumulative=True)),
    ("mod_arith", dict(modulus=97, expression_len=33, cumulative=True)),
    ("mod_arith", dict(modulus=2, expression_len=33, precedence=True)),
    ("group_word", dict(group="A4xZ5xS3", input_seq_len=13)),
    ("group_word", dict(group="Z7", input_seq_len=70)),
    ("group_word", dict(group="A7", input_seq_len=9)),
    ("group_swap", dict(num_points=7, input_seq_len=70)),
    ("group_swap", dict(num_points=3, input_seq_len=5)),
]
