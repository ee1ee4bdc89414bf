#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tn_pt_save writes, read by Python's own zipfile and pickle, with stand-ins for PyTorch's classes.

    written.py PROGRAM      PROGRAM FILE writes a float32 [2, 2] tensor 1 2 3 4 as "a.x" and a uint16 one of 65535 as "u"
"""
import io
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections import OrderedDict
from pathlib import Path


class Reader(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        return (lambda *a: (name, *a)) if name.startswith("_rebuild") else f"{module}.{name}"

    def persistent_load(self, identity):
        return identity


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.pt"
        subprocess.run([sys.argv[1], path], check=True)
        archive = zipfile.ZipFile(path)
        assert archive.testzip() is None
        names = archive.namelist()
        assert names == ["archive/data.pkl", "archive/byteorder", "archive/version", "archive/data/0", "archive/data/1"], names
        assert all(i.compress_type == zipfile.ZIP_STORED for i in archive.infolist())
        state = Reader(io.BytesIO(archive.read("archive/data.pkl"))).load()
        assert list(state) == ["a.x", "u"], state
        assert state["a.x"] == ("_rebuild_tensor_v2", ("storage", "torch.FloatStorage", "0", "cpu", 4), 0, (2, 2), (2, 1), False, OrderedDict()), state
        assert state["u"] == ("_rebuild_tensor_v3", ("storage", "torch.storage.UntypedStorage", "1", "cpu", 2), 0, (1,), (1,), False, OrderedDict(),
                              "torch.uint16"), state
        assert struct.unpack("<4f", archive.read("archive/data/0")) == (1, 2, 3, 4)
        assert struct.unpack("<H", archive.read("archive/data/1")) == (65535,)
        assert (archive.read("archive/version"), archive.read("archive/byteorder")) == (b"3\n", b"little")
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
