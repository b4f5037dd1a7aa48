# SPDX-License-Identifier: Apache-2.0
"""Tests in Python."""

def mb_python_test(name, size, script = None, args = [], data = []):
    """Runs `script`, by default NAME.py, with `args`."""
    script = script or name + ".py"
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//tests/support:run_python.sh"],
        args = ["$(location %s)" % script] + args,
        data = [script] + data,
    )
