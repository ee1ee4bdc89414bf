#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Event files, read by a reader of their own: records with checksums, protocol buffers, PNG.

    events.py PROGRAM      PROGRAM FOLDER writes the values that are expected here
"""
import math
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path


def crc32c(data):
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C in RFC 3720


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, of_length = struct.unpack_from("<QI", data)
        assert of_length == masked(data[:8])
        body = data[12:12 + length]
        assert struct.unpack_from("<I", data, 12 + length)[0] == masked(body)
        yield body
        data = data[16 + length:]


def varint(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return n, at


def fields(data):
    """{number: [values]}: integers, bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            size = {1: 8, 5: 4}[key & 7]
            value, at = struct.unpack_from("<d" if size == 8 else "<f", data, at)[0], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def doubles(data):
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def pixels(png):
    """Rows of a PNG file whose lines have filters 0 to 4 of the format."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        body = png[at + 8:at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length)[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack_from(">IIBB", body)
        if kind == b"IDAT":
            packed += body
        at += 12 + length
    assert depth == 8
    channels = {0: 1, 2: 3}[colour]
    raw, size, rows = zlib.decompress(packed), width * channels, []
    before = [0] * size
    for y in range(height):
        line = list(raw[y * (size + 1):(y + 1) * (size + 1)])
        kind, line = line[0], line[1:]
        for i in range(size):
            left, up, corner = line[i - channels] if i >= channels else 0, before[i], before[i - channels] if i >= channels else 0
            near = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
            line[i] = (line[i] + (0, left, up, (left + up) // 2, near)[kind]) % 256
        rows.append(line)
        before = line
    return rows


def check(file):
    events = [fields(r) for r in records(file.read_bytes())]
    assert events[0][3] == [b"brain.Event:2"] and abs(events[0][1][0] - time.time()) < 600
    values = [(e[2][0], fields(fields(e[5][0])[1][0])) for e in events[1:]]
    by_tag = {}
    for step, v in values:
        by_tag.setdefault(v[1][0].decode(), []).append((step, v))
    (one, a), (two, b) = by_tag["loss"]
    assert (one, a[2]) == (1, [0.5]) and two == 2**64 - 2 and math.isnan(b[2][0])
    step, v = by_tag["weights"][0]
    h = fields(v[5][0])
    assert step == 3 and [h[i][0] for i in range(1, 6)] == [0, 4, 6, 12, 38], h  # of 0 1 1 2 4 4
    limits, counts = doubles(h[6][0]), doubles(h[7][0])
    assert len(limits) == len(counts) == 64 and limits[-1] == 4 and limits == sorted(limits)
    assert [(i, n) for i, n in enumerate(counts) if n] == [(0, 1), (16, 2), (32, 1), (63, 2)], counts
    assert sum(doubles(fields(by_tag["integers"][0][1][5][0])[7][0])) == 4
    assert sum(doubles(fields(by_tag["nothing"][0][1][5][0])[7][0])) == 0
    image = fields(by_tag["grey"][0][1][4][0])
    assert [image[i][0] for i in (1, 2, 3)] == [2, 3, 1] and pixels(image[4][0]) == [[0, 128, 255], [1, 2, 3]]
    image = fields(by_tag["colour"][0][1][4][0])
    assert [image[i][0] for i in (1, 2, 3)] == [1, 2, 3] and pixels(image[4][0]) == [[255, 0, 0, 128, 0, 255]]
    assert [(s, v[2][0]) for s, v in by_tag["many"]] == [(i, i) for i in range(2000)]
    assert by_tag["last"][0][0] == 9 and "bad" not in by_tag


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder) / "run"
        subprocess.run([sys.argv[1], folder], check=True)
        files = sorted(folder.iterdir(), key=lambda f: -f.stat().st_size)
        assert len(files) == 2 and all(".tfevents." in f.name for f in files), files
        check(files[0])
        assert len(list(records(files[1].read_bytes()))) == 1
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
