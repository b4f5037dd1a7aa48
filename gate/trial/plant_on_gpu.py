#!/usr/bin/env python3
"""Plants one of two faults in the sources of GLA, for a build that runs on a GPU.

    plant_on_gpu.py decay|slow    # rewrites a file of the checkout; `git checkout -- models` takes it back

`decay` is off by one token; `slow` copies what the core reads, some 5 % of a forward pass. See README.md.
SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).absolute().parents[2]
FILE = "models/mixers/gla/gla.cc"
# {fault: [(what stands in the file once, what takes its place)]}
FAULTS = {
    "decay": [("            .view(args.k.sizes());", "            .view(args.k.sizes())\n            .roll(1, 1);")],
    "slow": [
        ("    args.q = map(args.q, options.path);", "    args.q = map(args.q, options.path).clone();"),
        (
            "    args.k = map(args.k, options.path);",
            "    args.k = map(args.k, options.path).clone();\n    args.v = args.v.clone();",
        ),
    ],
}


def planted(fault, root=ROOT):
    """The file, and its text with the fault in it."""
    text = (root / FILE).read_text(encoding="utf-8")
    for old, new in FAULTS[fault]:
        if text.count(old) != 1:
            raise SystemExit(f"error: {FILE}: not once: {old!r}")
        text = text.replace(old, new)
    return root / FILE, text


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in FAULTS:
        sys.exit(__doc__)
    file, rewritten = planted(sys.argv[1])
    file.write_text(rewritten, encoding="utf-8")
