"""write_wheel.py STAGE TORCH OUT: packs a folder that holds the package as a wheel (PEP 427), to the same bytes each time.

SPDX-License-Identifier: Apache-2.0
"""

import base64
import hashlib
import os
import re
import sys
import zipfile

TAG = "py3-none-linux_x86_64"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip file knows


def version():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(root, "base", "version.h"), encoding="utf-8") as file:
        return re.search(r'"(\d+\.\d+\.\d+)"', file.read()).group(1)


def metadata(torch, page):
    """`page` is what an index or `importlib.metadata` shows of the package."""
    return (
        "Metadata-Version: 2.1\nName: mixerbench\n"
        f"Version: {version()}\n"
        "Summary: Recall and state of sequence mixers, compared under one recipe\n"
        "License: Apache-2.0\n"
        "Requires-Python: >=3.10\n"
        f"Requires-Dist: torch (=={torch})\n"
        "Requires-Dist: numpy\n"
        f"Description-Content-Type: text/markdown\n\n{page}"
    )


def files(stage, torch):
    """{name in the wheel: content}."""
    found = {}
    for folder, _, names in os.walk(stage):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, stage)] = file.read()
    info = f"mixerbench-{version()}.dist-info"
    found[f"{info}/LICENSE"] = found.pop("LICENSE")
    found[f"{info}/METADATA"] = metadata(torch, found.pop("PYTHON.md").decode()).encode()
    found[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: mixerbench\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode()
    found[f"{info}/entry_points.txt"] = b"[console_scripts]\nmixerbench = mixerbench.host:main\n"
    record = "".join(f"{name},sha256={digest(found[name])},{len(found[name])}\n" for name in sorted(found))
    found[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    return found


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main(stage, torch, out):
    path = os.path.join(out, f"mixerbench-{version()}-{TAG}.whl")
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in sorted(files(stage, torch).items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
    os.replace(path + ".part", path)
    print(f"{path}: {os.path.getsize(path) >> 20} MiB")


if __name__ == "__main__":
    main(*sys.argv[1:])
