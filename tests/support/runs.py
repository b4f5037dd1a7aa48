"""A suite of seconds, and how to compare what two runs of one made. SPDX-License-Identifier: Apache-2.0"""

import copy

TIMED = frozenset({"time", "elapsed_s", "integrity"})  # what a clock decides (docs/REPORT_SCHEMA.md)

# Seconds on one core: two mixers, two seeds, a speed curve of two lengths.
TINY_SUITE = {
    "schema_version": "1.0",
    "name": "tiny",
    "task": {
        "name": "mqar",
        "vocab_size": 64,
        "noise": "zero",
        "train": {"input_seq_len": [16, 24], "num_kv_pairs": [2, 3], "num_examples": 64},
        "validation": {"num_examples": 32},
        "test": {"input_seq_len": [16, 32], "num_kv_pairs": [2, 3], "num_examples": 40},
    },
    "model": {"backbone": "zoology", "d_model": 16, "n_layers": 2},
    "train": {"recipe": "zoology", "lr": 0.003, "batch_size": 16, "num_epochs": 3},
    "sweep": {
        "grid": {"model.sequence_mixer": [{"name": "attention"}, {"name": "delta_net"}]}
    },
    "seeds": {"count": 2},
    "throughput": {"seq_len": [16, 32], "batch_size": 2, "num_samples": 3},
}


def tiny_suite():
    return copy.deepcopy(TINY_SUITE)


def untimed(value, timed=TIMED):
    """A result or report without the members of these names, at any depth."""
    if isinstance(value, dict):
        return {key: untimed(item, timed) for key, item in value.items() if key not in timed}
    return [untimed(item, timed) for item in value] if isinstance(value, list) else value
