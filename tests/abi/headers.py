#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, as C11, C17 and C++17, without one warning, with gcc and clang; those that
vendors use also with TN_PLUGIN, under which no function of ours may be declared."""
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Wshadow", "-Werror", "-fsyntax-only"]
LANGUAGES = [("c", "c11"), ("c", "c17"), ("c++", "c++17")]
VENDOR = ["plugin.h", "op.h", "ops.h", "value.h", "base.h", "device.h", "graph.h", "collectives.h",
          "random.h", "tensor.h", "context.h", "kernel.h"]


def compile_alone(job):
    include, header, compiler, language, standard, defines = job
    only_c = ["-Wstrict-prototypes", "-Wmissing-prototypes"] if language == "c" else []
    command = [compiler, "-x", language, f"-std={standard}", *STRICT, *only_c, *defines, f"-I{include}", "-"]
    run = subprocess.run(command, input=f"#include <tenon/{header}>\n", capture_output=True, text=True)
    return None if run.returncode == 0 else f"{' '.join(command)}  # {header}\n{run.stderr}"


def declared_functions(include, header):
    """Functions that a vendor's translation unit would have to link: declarations without a body."""
    code = f"#define TN_PLUGIN\n#define TN_API __attribute__((annotate(\"api\")))\n#include <tenon/{header}>\n"
    run = subprocess.run(["gcc", "-E", "-P", f"-I{include}", "-"], input=code, capture_output=True, text=True)
    return [line for line in run.stdout.splitlines() if 'visibility("default")' in line and "tenon_plugin" not in line]


def main():
    include = Path(sys.argv[1])
    headers = sorted(p.name for p in (include / "tenon").glob("*.h"))
    compilers = [c for c in ("gcc", "clang") if shutil.which(c)]
    jobs = [(include, h, c, *l, d) for h in headers for c in compilers for l in LANGUAGES
            for d in ([[], ["-DTN_PLUGIN"]] if h in VENDOR else [[]])]
    with ThreadPoolExecutor(2) as pool:
        failures = [f for f in pool.map(compile_alone, jobs) if f]
    for header in VENDOR:
        failures += [f"{header} with TN_PLUGIN declares: {line}" for line in declared_functions(include, header)]
    print("\n".join(failures) or f"{len(jobs)} compilations of {len(headers)} headers with {', '.join(compilers)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
