"""A suite of seconds. SPDX-License-Identifier: Apache-2.0"""

SUITE = {
    "schema_version": "1.0",
    "name": "tiny",
    "task": {
        "name": "mqar",
        "vocab_size": 64,
        "noise": "zero",
        "train": {"input_seq_len": 16, "num_kv_pairs": 2, "num_examples": 64},
        "validation": {"num_examples": 32},
        "test": {"input_seq_len": [16, 32], "num_kv_pairs": [2, 3], "num_examples": 40},
    },
    "model": {"backbone": "zoology", "d_model": 16, "n_layers": 2, "sequence_mixer": {"name": "gla"}},
    "train": {"recipe": "zoology", "lr": 0.003, "batch_size": 16, "num_epochs": 2},
    "seeds": {"count": 1},
}
