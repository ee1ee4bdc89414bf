#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every released binary with today's library: plugins are loaded and checked, programs run and print what they printed.

0.1 is older than the first contract that is kept (docs/abi-policy.md): its plugin must be refused, with the words below.

    museum.py BUILD
"""
import gzip
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import header_library  # noqa: E402

# What a type may do: grow at its end. lock.py says more exactly where that is allowed.
SUPPRESSIONS = "[suppress_type]\n  type_kind = struct\n  has_data_member_inserted_at = end\n"
SMOOTH = ["tensor([1.0635, 3.0000, 0.8466], dtype=torch.float64)", "gradient is right"]

# What the suite has learnt to find since a release, in that release's plugins. They run as before.
UNSAID = {"0/slot/memory.alloc": "in 0.2 it did not say what kind of memory it gave, nor how much"}
STRICTER = {"libtenon_null.so": {"0/event/timing": "in 0.2 its events had no time: 0 ms between any two"}, "libtenon_smallest.so": UNSAID}

REFUSED = ["0.1"]
REFUSAL = "ABI generation: expected 2 to 2, found 1 to 1 (compile the plugin with this library's headers)"


class Failure(Exception):
    pass


class Exhibits:
    """A copy of one release with safe permissions, and how its binaries are run."""

    def __init__(self, build, release, folder):
        self.build, self.folder = build, Path(folder)
        for path in release.iterdir():
            packed = path.suffix == ".gz"
            target = self.folder / (path.stem if packed else path.name)
            target.write_bytes(gzip.decompress(path.read_bytes()) if packed else path.read_bytes())
            target.chmod(0o755 if target.suffix == "" else 0o644)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TENON_")}
        self.environment |= {"LD_LIBRARY_PATH": str(build), "TENON_PLUGIN_PATH": f"{build}/tenon/plugins:{folder}", "TENON_NULL_DEVICES": "1",
                             "XDG_CACHE_HOME": str(self.folder / "cache")}

    def run(self, *command, status=0):
        done = subprocess.run([str(c) for c in command], env=self.environment, capture_output=True, text=True, timeout=240)
        if done.returncode != status:
            raise Failure(f"{command}: status {done.returncode}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}")
        return done.stdout

    def tenon(self, *arguments, status=0):
        return self.run(self.build / "kit" / "tenon", *arguments, status=status)


def check_plugins(exhibits):
    report = json.loads(exhibits.tenon("doctor", "--json"))
    found = {Path(p["library"]).name: p for p in report["plugins"] if p["library"].startswith(str(exhibits.folder))}
    for manifest in sorted(exhibits.folder.glob("*.json")):
        name = json.loads(manifest.read_text())["library"]
        plugin = found.get(name, {"state": "not found", "reason": ""})
        if plugin["state"] != "loaded" or plugin["devices"] != 1:
            raise Failure(f"{name}: {plugin['state']}: {plugin['reason']}")
        known = exhibits.folder / "known"
        known.write_text("\n".join(f"{case} {why}" for case, why in STRICTER.get(name, {}).items()))
        exhibits.tenon("check", exhibits.folder / name, "--tier", "0", "--expected-failures", known)


def check_refusal(exhibits):
    report = json.loads(exhibits.tenon("doctor", "--json", status=1))
    found = [p for p in report["plugins"] if p["library"].startswith(str(exhibits.folder))]
    if not found or any(p["state"] == "loaded" or REFUSAL not in p["reason"] for p in found):
        raise Failure(f"a plugin of another generation: {[(p['state'], p['reason']) for p in found]}")


def check_operators(exhibits):
    output = exhibits.run(exhibits.folder / "use", exhibits.folder / "libsmooth.so").splitlines()
    if output != SMOOTH:
        raise Failure(f"use: {output}")


def check_device(exhibits):
    output = exhibits.run(exhibits.folder / "on_device", "acme:0")
    if not output.endswith("well\n"):
        raise Failure(f"on_device: {output}")


def check_contract(exhibits):
    """The second net: lock.py is the first."""
    if not shutil.which("abidiff"):
        print("contract: abidiff is not there (Debian: abigail-tools)")
        return
    with tempfile.TemporaryDirectory() as folder:
        old, suppressions = Path(folder) / "old.abi", Path(folder) / "suppressions"
        shutil.copy(exhibits.folder / "tenon.abi", old)
        suppressions.write_text(SUPPRESSIONS)
        new = header_library.describe(HERE.parents[1] / "abi" / "include", folder)
        done = subprocess.run(["abidiff", "--non-reachable-types", "--no-added-syms", "--suppressions", suppressions, old, new],
                              capture_output=True, text=True)
        removed = "0 Removed" not in done.stdout and done.stdout
        if done.returncode & ~4 or removed or (done.returncode and " 0 Changed" not in done.stdout):
            raise Failure(f"abidiff: status {done.returncode}\n{done.stdout[:3000]}{done.stderr[:500]}")


CHECKS = [check_plugins, check_operators, check_device, check_contract]


def main():
    build = Path(sys.argv[1]).resolve()
    releases = sorted(p for p in HERE.iterdir() if (p / "tenon.abi.gz").exists() or p.name in REFUSED)
    if platform.machine() != "x86_64":
        print("0 passed, 0 failed, 1 skipped: the binaries are for x86-64")
        return 77
    passed = failed = 0
    for release in releases:
        for check in [check_refusal] if release.name in REFUSED else CHECKS:
            with tempfile.TemporaryDirectory(dir=build) as folder:
                os.chmod(folder, 0o755)
                try:
                    check(Exhibits(build, release, folder))
                    passed += 1
                except (Failure, subprocess.TimeoutExpired) as e:
                    print(f"{release.name}: {check.__name__}: {e}")
                    failed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not releases else 0


if __name__ == "__main__":
    sys.exit(main())
