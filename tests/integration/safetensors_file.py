"""Small safetensors files. SPDX-License-Identifier: Apache-2.0"""

import json
import struct


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    formats = {"F32": "f", "BF16": "f", "F64": "d", "I32": "i", "I64": "q"}
    tensors = {}
    for name, info in header.items():
        first, last = info["data_offsets"]
        body = data[8 + size + first : 8 + size + last]
        if info["dtype"] == "BF16":  # the upper half of an F32
            halves = struct.unpack(f"<{len(body) // 2}H", body)
            body = struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves))
        kind = formats[info["dtype"]]
        tensors[name] = (info["shape"], list(struct.unpack(f"<{len(body) // struct.calcsize(kind)}{kind}", body)))
    return tensors


def write_safetensors(path, tensors):
    """Whole numbers as I64, others as F32."""
    header, body = {}, b""
    for name, (shape, values) in sorted(tensors.items()):
        whole = bool(values) and all(isinstance(value, int) for value in values)
        packed = struct.pack(f"<{len(values)}{'q' if whole else 'f'}", *values)
        header[name] = {"dtype": "I64" if whole else "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(packed)]}
        body += packed
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)
