#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a C file with the device code of the GPU family as strings: each file with its includes in place, without comments.

    gen_device.py FOLDER[,FOLDER...] FILE...    folders in which includes are found; files in the order of the array
"""
import re
import sys
from pathlib import Path


def expand(path, folders, seen):
    """The lines of a file, an include of ours replaced by the file once; system includes stay."""
    for line in path.read_text().splitlines():
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if not match:
            yield line
            continue
        found = next((f / match[1] for f in folders if (f / match[1]).exists()), None)
        if not found:
            sys.exit(f"{path}: {match[1]} is in none of the folders")
        if found not in seen:
            seen.add(found)
            yield from expand(found, folders, seen)


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" if "\n" in m[0] else " ", text, flags=re.S)
    return "\n".join(line.rstrip() for line in text.split("\n") if line.strip())


def main():
    folders = [Path(f) for f in sys.argv[1].split(",")]
    print('/* Made by tools/gen_device.py. */\n#include "gpu.h"\n\nconst gpu_source gpu_sources[] = {')
    for name in sys.argv[2:]:
        path = Path(name)
        lines = without_comments("\n".join(expand(path, folders, set()))).split("\n")
        literals = "\n".join('     "' + l.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for l in lines)
        print(f'    {{"{path.name}",\n{literals}}},')
    print("    {0, 0},\n};")


if __name__ == "__main__":
    main()
