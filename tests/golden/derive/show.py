"""Prints a sample of a second derivation, as the unit tests of the tasks quote them.

    python3 tests/golden/derive/show.py mqar --set input_seq_len=16 --set num_kv_pairs=2 --seed 1 --index 3

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json

from families import DERIVATIONS


def setting(text):
    """NAME=VALUE, the value in JSON or a word."""
    name, value = text.split("=", 1)
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=sorted(DERIVATIONS))
    parser.add_argument("--set", action="append", type=setting, default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--index", type=int, default=0)
    arguments = parser.parse_args()
    derivation, options = DERIVATIONS[arguments.task], dict(arguments.set)
    (sample,) = derivation.samples(options, arguments.seed, arguments.split, arguments.index, 1)
    print(derivation.canon(options))
    print("inputs", *sample.inputs)
    print("labels", *(f"{t}:{label}" for t, label in sorted(sample.labels.items())))


if __name__ == "__main__":
    main()
