# SPDX-License-Identifier: Apache-2.0
"""docs/slots.md against abi/include/tenon/plugin.h: every slot is listed once, with a caller and a test that speak of it."""
import re
import sys
from pathlib import Path


def slots_of(header):
    """The names of all slots: "memory.alloc" of a plugin, "alloc" of the host."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    plugin, host = [], []
    for name, body in re.findall(r"struct (\w+) \{\n(.*?)\n\}", text, re.S):
        fields = re.findall(r"(?:^|;)\s*[\w\s*]+\(\*(\w+)\)\(", body)
        interface = re.fullmatch(r"tn_(\w+)_interface", name)
        if interface and interface[1] != "shim":
            plugin += [f"{interface[1]}.{field}" for field in fields]
        if name == "tn_host":
            host += fields
    return plugin, host


def main():
    root = Path(sys.argv[1])
    wrong = []
    plugin, host = slots_of((root / "abi/include/tenon/plugin.h").read_text())
    listed = []
    for line in (root / "docs/slots.md").read_text().splitlines():
        cells = re.findall(r"\| `([^`]+)` ", line + " ")
        if not cells:
            continue
        listed.append(cells[0])
        word = cells[0].split(".")[-1]
        if len(cells) != 3 or not cells[2].startswith("tests/"):
            wrong.append(f"{cells[0]}: a caller and a test are wanted")
        for name in cells[1:]:
            path = root / name
            if not path.is_file() or not re.search(rf"\b(\w+_)?{word}(_\w+)?\b", path.read_text()):
                wrong.append(f"{cells[0]}: {name} does not speak of it")
    for slot in plugin + host:
        if listed.count(slot) != 1:
            wrong.append(f"{slot} is listed {listed.count(slot)} times")
    wrong += [f"{slot} is not a slot of plugin.h" for slot in listed if slot not in plugin + host]
    if not plugin or not host:
        wrong.append("no slots found in plugin.h")
    print("\n".join(wrong) or f"{len(plugin) + len(host)} slots")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
