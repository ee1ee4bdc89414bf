#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles, links and runs a program against the build folder by its pkg-config file: uninstalled.py BUILD"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
#include <tenon/tenon.h>
int main(void) { tn_context *ctx; int32_t status = tn_context_create(NULL, &ctx); tn_context_destroy(ctx); return status; }
"""


def main():
    build = Path(sys.argv[1]).resolve()
    env = os.environ | {"PKG_CONFIG_PATH": str(build / "meson-uninstalled"), "LD_LIBRARY_PATH": str(build)}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tenon"], env=env, check=True, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "first.c", Path(folder) / "first"
        source.write_text(PROGRAM)
        subprocess.run(["cc", str(source), "-o", str(program), *flags.stdout.split()], check=True)
        return subprocess.run([str(program)], env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
