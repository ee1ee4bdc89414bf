#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs what `./dev device` and `./dev bench` need, for a machine with a device on which nothing can be built or installed:
the built programs and plugins, the libraries of others that they load, the recorded calls, the demo's data. `./dev pack` starts it.

There: tar xf FILE, then `./dev device TYPE` in the folder. It takes an x86-64 Linux whose glibc is the one that is printed or newer,
bash, python3 of 3.9 or newer, and the vendor's driver. Libraries that each Linux with a C++ program has are not packed. The others
are private to the pack, and LD_LIBRARY_PATH does not replace them: each packed file finds them by its own run path (DT_RPATH).
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EVERYWHERE = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s))\.so")
LOADED = ["libopenblas.so.0", "libdnnl.so.2"] # by the CPU plugin, where they are
PARTS = ("golden", "demo", "bench")


def needed(path):
    """Names and places of the shared libraries that a file loads."""
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", listed, flags=re.M))


def place_of(soname):
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"^\s*{re.escape(soname)} .*x86-64.* => (\S+)", listed, flags=re.M)
    return found and found[1]


def set_run_path(path, text):
    subprocess.run(["patchelf", "--force-rpath", "--set-rpath", text, path], check=True)


def least_glibc(folder):
    """The version that the packed files need."""
    files = [str(path) for path in (*folder.glob("build/**/*"), *folder.glob("libraries/*")) if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    symbols = subprocess.run(["objdump", "-T", *files], capture_output=True, text=True, check=True).stdout
    return max((tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(\d+\.\d+)", symbols)), default=())


def chosen(folder, *patterns):
    return (path for pattern in patterns for path in folder.glob(pattern))


def our_files(build, kind, parts):
    """Paths below the build folder."""
    yield from (p for p in build.glob("libtenon*.so.*.*.*") if p.is_file())
    yield build / "kit/tenon"
    yield build / "kit/tenon-probe"
    if "demo" in parts:
        yield build / "examples/fashion_mnist"
    if "bench" in parts:
        yield from (p for p in (build / "bench").glob("bench_*") if p.is_file() and os.access(p, os.X_OK))
    for plugin in sorted({"cpu", "reference", kind}):
        yield from chosen(build / "plugins" / plugin, "*.so", f"{plugin}.json")
    yield from (build / "tenon/plugins").glob("*.json")


def source_files(parts):
    yield ROOT / "dev"
    yield ROOT / "LICENSE"
    if "golden" in parts:
        yield from chosen(ROOT / "tests/golden", "*.py", "*.tsv")
    if "bench" in parts:
        yield from chosen(ROOT / "bench", "*.py", "*.tsv", "*.cpp")


def copy_build(build, folder, kind, parts):
    """Our programs, and the libraries of others that they need. They find these by run paths that hold everywhere."""
    libraries = folder / "libraries"
    libraries.mkdir()
    others = {name: place for name in LOADED if (place := place_of(name))}
    for path in our_files(build, kind, parts):
        at = folder / "build" / path.relative_to(build)
        at.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".json" and path.is_symlink() and not (folder / "build/plugins" / path.stem).is_dir():
            continue # of a plugin that is not packed
        shutil.copy2(path, at, follow_symlinks=False)
        if path.suffix == ".json":
            continue
        others.update(needed(path))
        up = "../" * (len(at.relative_to(folder).parts) - 1)
        subprocess.run(["strip", "--strip-unneeded", at], check=True)
        set_run_path(at, f"$ORIGIN/{up}build:$ORIGIN/{up}libraries")
    for link in build.glob("libtenon*.so.?"):
        shutil.copy2(link, folder / "build", follow_symlinks=False)
    for name in LOADED:
        others.update(needed(others[name]) if name in others else {})
    for name, place in others.items():
        if EVERYWHERE.match(name) or name.startswith("libtenon"):
            continue
        shutil.copy2(place, libraries / name)
        set_run_path(libraries / name, "$ORIGIN")


def pack(build, kind, parts, oracle, workload, data, folder):
    """Fills the folder; its file `packed` names the device's type and the parts. Returns what was not found."""
    missing = {"golden": oracle / "cases", "bench": workload, "demo": data}
    missing = {part: path for part, path in missing.items() if part in parts and not path.exists()}
    parts = parts - missing.keys() | ({"bench"} & parts) # of the benches one reads the workload
    copy_build(build, folder, kind, parts)
    for path in source_files(parts):
        at = folder / path.relative_to(ROOT)
        at.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, at)
    if "golden" in parts:
        shutil.copytree(oracle, folder / "oracle")
    if "bench" in parts and "bench" not in missing:
        shutil.copy2(workload, folder / "workload.tsv")
    if "demo" in parts:
        shutil.copytree(data, folder / "data")
    (folder / "packed").write_text(" ".join([kind, *sorted(parts)]) + "\n")
    return sorted(missing.values())


def main():
    parser = argparse.ArgumentParser(description="Packs what `./dev device TYPE` needs for a machine on which nothing can be built or installed.")
    parser.add_argument("type", metavar="TYPE", help="of the device: cuda, hip, opencl, ...")
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="default: out/tenon-TYPE.tar.gz; .tar.xz is smaller, .tar is not compressed")
    parser.add_argument("--without", default="", metavar="A,B", help=f"leaves out some of: {' '.join(PARTS)}")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder")
    o = parser.parse_args()
    without = set(filter(None, o.without.split(",")))
    if without - set(PARTS):
        parser.error(f"--without takes {', '.join(PARTS)}, not {', '.join(sorted(without - set(PARTS)))}")
    if not (o.build / "plugins" / o.type / f"libtenon_{o.type}.so").is_file():
        parser.error(f"the build has no plugin for {o.type}: its summary says why")
    shared = ROOT.parent / "shared"
    file = o.file or ROOT / f"out/tenon-{o.type}.tar.gz"
    form = {".gz": "w:gz", ".xz": "w:xz", ".tar": "w"}.get(file.suffix)
    if not form:
        parser.error(f"{file.name} does not end in .tar.gz, .tar.xz or .tar")
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / f"tenon-{o.type}"
        folder.mkdir()
        missing = pack(o.build.resolve(), o.type, set(PARTS) - without, Path(os.environ.get("TENON_ORACLE") or shared / "oracle"),
                       Path(os.environ.get("TENON_WORKLOAD") or shared / "ops/workload_bench.tsv"), Path("/usr/share/datasets/fashion-mnist"), folder)
        glibc = ".".join(map(str, least_glibc(folder)))
        with tarfile.open(file, form, **({} if form == "w" else {"preset": 3} if form == "w:xz" else {"compresslevel": 6})) as archive:
            archive.add(folder, folder.name)
    print(f"{file}: {file.stat().st_size / 1e6:.0f} MB, for glibc {glibc} or newer")
    for path in missing:
        print(f"not packed, as it is not there: {path}")


if __name__ == "__main__":
    sys.exit(main())
