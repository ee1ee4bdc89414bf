#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a C file that holds files as an array of `embedded_file` (see cmd_new.c), ended by one without a name.

    embed.py HEADER ARRAY FILE=PATH...    PATH is the name that the file has in the array
"""
import sys
from pathlib import Path


def literal(data):
    """The bytes as C string literals of at most 96 bytes a line, with escapes where needed."""
    for start in range(0, len(data), 96):
        piece = data[start:start + 96]
        yield '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in piece) + '"'


def main():
    header, array, *pairs = sys.argv[1:]
    print(f'/* Made by embed.py. */\n#include "{header}"\n\nconst embedded_file {array}[] = {{')
    for pair in pairs:
        file, _, path = pair.partition("=")
        data = Path(file).read_bytes()
        print(f'    {{"{path}", {len(data)}u,')
        print("\n".join("     " + line for line in literal(data)) + "},")
    print("    {0, 0, 0},\n};")


if __name__ == "__main__":
    main()
