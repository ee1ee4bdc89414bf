#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each text that a table of mutants replaces is in its file, and there once. The hunts, which compile the mutants, say so late.

    mutants.py
"""
import importlib.util
import sys
import tomllib
from pathlib import Path

sys.dont_write_bytecode = True
TESTS = Path(__file__).resolve().parent.parent


def module(name):
    spec = importlib.util.spec_from_file_location(name, TESTS / name / "mutants.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def tables():
    """(table, what is changed, path, text)"""
    for path in sorted(TESTS.glob("*/mutants.toml")):
        for mutants in tomllib.loads(path.read_text()).values():
            yield from ((path.parent.name, what, TESTS.parent / file, text) for what, file, text, *_ in mutants)
    yield from (("chaos", what, TESTS.parent / file, text) for what, file, text, *_ in module("chaos").MUTANTS)
    autograd = module("autograd")
    for of in autograd.MUTANTS:
        yield from (("autograd", what, TESTS.parent / file, text) for what, file, text, *_ in autograd.mutants_of(of))
    kit = module("kit")
    yield from (("kit", what, kit.Plugin.path_of(file), text) for what, file, text, *_ in kit.MUTANTS + kit.FREEDOMS)


def main():
    listed = [(table, what, path, path.read_text().count(text)) for table, what, path, text in tables()]
    wrong = [entry for entry in listed if entry[3] != 1]
    for table, what, path, count in wrong:
        print(f"{table}: {what}: the text is {count} times in {path.relative_to(TESTS.parent)}")
    print(f"{len(listed) - len(wrong)} passed, {len(wrong)} failed, 0 skipped")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
