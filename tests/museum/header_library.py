# SPDX-License-Identifier: Apache-2.0
"""The public headers as a library: every declared function with an empty body, compiled with all types in its debug
information, so that libabigail sees the whole contract and nothing else, in a second and without a build of Tenon."""
import re
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "abi"))
import scan  # noqa: E402

HEADERS = ["base.h", "value.h", "context.h", "tensor.h", "op.h", "autograd.h", "device.h", "graph.h", "collectives.h",
           "interop.h", "random.h", "io.h", "inspect.h", "trace.h", "profile.h", "activity.h"]


def source(include):
    """C text: the headers, the functions of each with a body in place of the semicolon, and a pointer to each struct, so that
    no type is out of reach."""
    lines = [f"#include <tenon/{h}>" for h in HEADERS] + ["#include <tenon/plugin.h>"]
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", " ", (Path(include) / "tenon" / header).read_text(), flags=re.S)
        for declaration in re.findall(r"^TN_API ([^;{]*\(.*?\)[^;{]*);", text, flags=re.M | re.S):
            lines.append(f"TN_API {' '.join(declaration.split())} {{ __builtin_trap(); }}")
    for struct in scan.scan(Path(include) / "tenon").structs.values():
        lines.append(f"TN_API {struct.tag} *shown_{struct.name}; TN_API {struct.tag} *shown_{struct.name};".replace("TN_API", "TN_API extern", 1))
    return "\n".join(lines) + "\n"


def build(include, folder):
    """The path of the library. Raises where there is no debug information: libabigail would find no difference then."""
    text, library = Path(folder) / "headers.c", Path(folder) / "libheaders.so"
    text.write_text(source(include))
    subprocess.run(["gcc", "-std=gnu17", "-w", "-g", "-fno-eliminate-unused-debug-types", "-shared", "-fPIC", f"-I{include}",
                    str(text), "-o", str(library)], check=True)
    sections = subprocess.run(["readelf", "-SW", str(library)], capture_output=True, text=True, check=True).stdout
    if ".debug_info" not in sections:
        raise RuntimeError(f"{library} has no debug information")
    return library


def describe(include, folder):
    """The contract as libabigail writes it down."""
    described = Path(folder) / "tenon.abi"
    subprocess.run(["abidw", "--load-all-types", "--no-show-locs", "--no-comp-dir-path", "--no-corpus-path", "--out-file",
                    str(described), str(build(include, folder))], check=True)
    return described
