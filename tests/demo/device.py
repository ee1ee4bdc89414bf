#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten steps of the demo on a device, tested with the first thousand images: it learns.

    device.py [--slow] PROGRAM DEVICE    --slow: the device takes minutes, so this runs only where TENON_TEST_DEVICES is set
"""
import gzip
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from run import DATA  # noqa: E402

TESTED = 1000
LEAST = 60  # percent; with all images it was 67 to 69 on each device so far, and a guess is right in 10


def shorten(name, folder, dimensions):
    """A file of the data with its first images or labels alone: a number of four bytes, the sizes, the bytes."""
    data = gzip.decompress((DATA / name).read_bytes())
    head = 4 + 4 * dimensions
    item = (len(data) - head) // struct.unpack_from(">I", data, 4)[0]
    short = data[:4] + struct.pack(">I", TESTED) + data[8:head + TESTED * item]
    (folder / name).write_bytes(gzip.compress(short, 1))


def train(program, device):
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        data.mkdir()
        for file in DATA.glob("train-*"):
            (data / file.name).symlink_to(file)
        shorten("t10k-images-idx3-ubyte.gz", data, 3)
        shorten("t10k-labels-idx1-ubyte.gz", data, 1)
        command = [program, "--device", device, "--images", "1280", "--epochs", "1", "--data", data, "--output", folder]
        return subprocess.run(command, capture_output=True, text=True)


def skip(reason):
    print(f"skipped: {reason}\n0 passed, 0 failed, 1 skipped")
    return 77


def main():
    if not DATA.is_dir():
        return skip("dataset-fashion-mnist is not installed")
    if sys.argv[1] == "--slow" and "TENON_TEST_DEVICES" not in os.environ:
        return skip("takes minutes, and TENON_TEST_DEVICES is not set")
    done = train(*sys.argv[-2:])
    if done.returncode and "asked for by the program, cannot be used" in done.stderr:
        return skip("no device (Debian: pocl-opencl-icd for OpenCL, mesa-vulkan-drivers for Vulkan)")
    found = re.search(r"^test accuracy: ([\d.]+) %$", done.stdout, re.M)
    good = done.returncode == 0 and found and float(found[1]) >= LEAST
    print(f"test accuracy {found[1]} %, at least {LEAST} % is expected" if found else f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}")
    print(f"{int(bool(good))} passed, {int(not good)} failed, 0 skipped")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
