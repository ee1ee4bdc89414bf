# SPDX-License-Identifier: Apache-2.0
"""Writes tensors of PyTorch to a safetensors file, for the scripts that record what PyTorch gives."""
import json
import struct

KINDS = {"torch.float64": "F64", "torch.int64": "I64", "torch.bool": "BOOL"}


def write(path, tensors, metadata=None):
    header, data, at = {"__metadata__": metadata} if metadata else {}, [], 0
    for name, t in tensors.items():
        raw = t.contiguous().numpy().tobytes()
        header[name] = {"dtype": KINDS[str(t.dtype)], "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))
