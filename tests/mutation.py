# SPDX-License-Identifier: Apache-2.0
"""What the tests of tests share: a mutant is one file of the tree with one text replaced, compiled as the build compiled the
original. A mutant that no test notices is a failure; so is a text that is not found exactly once, which means that the table
of mutants has to follow the source.
"""
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = 77


def compile_commands(build, is_wanted):
    """The entries of the compilation database by the path of the source, for the outputs that `is_wanted` takes."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = (Path(entry["directory"]) / entry["file"]).resolve()
        if path.is_relative_to(ROOT) and is_wanted(entry["output"]):
            commands.setdefault(str(path.relative_to(ROOT)), entry)
    return commands


def is_plain(commands):
    """False, with a message, for builds with sanitizers."""
    if not any("-fsanitize" in entry["command"] for entry in commands.values()):
        return True
    print("skipped: the mutants are made of plain builds only\n0 passed, 0 failed, 1 skipped")
    return False


def link_command(build, target):
    """The words of the command that links `target`."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "commands", target], check=True, capture_output=True, text=True)
    return shlex.split([line for line in listed.stdout.splitlines() if f"-o {target}" in line][-1])


def compile_mutant(build, commands, folder, file, old, new, options=()):
    """The object of the build and the one that replaces it; None when the text is not there once. The file is compiled with
    `options` in place of -O3."""
    text = (ROOT / file).read_text()
    if text.count(old) != 1:
        return None
    changed = folder / Path(file).name
    changed.write_text(text.replace(old, new))
    words = shlex.split(commands[file]["command"])
    replaced = words[words.index("-o") + 1]
    with_value = ("-MQ", "-MF", "-c", "-o")
    keep = [w for i, w in enumerate(words) if w not in ("-MD", *with_value) and words[i - 1] not in with_value]
    if options:
        keep = [w for w in keep if w != "-O3"]
    target = folder / "mutant.o"
    # A test may keep caches from the plugin, but not from the compiler's.
    environment = {k: v for k, v in os.environ.items() if k != "XDG_CACHE_HOME"}
    subprocess.run([*keep, f"-I{(ROOT / file).parent}", "-w", *options, "-c", str(changed), "-o", str(target)], cwd=build, check=True,
                   env=environment)
    return replaced, target


def library_commands(build):
    """The compilation of libtenon's files."""
    return compile_commands(build, lambda output: "/lib" in output and not output.startswith(("tests/", "plugins/")))


def link_library(build, folder, replaced, target):
    """A libtenon with one object replaced. Archives of the build are thin: their members are the objects."""
    words, seen = [], set()
    for word in link_command(build, "libtenon.so.0.1.0"):
        if word.endswith(".a") and not word.startswith("-"):
            listed = subprocess.run(["ar", "t", word], cwd=build, check=True, capture_output=True, text=True).stdout.split()
            fresh = [m for m in listed if m not in seen]  # an archive may hold another's objects
            seen.update(fresh)
            words += [str(target) if (build / m).resolve() == (build / replaced).resolve() else m for m in fresh]
        else:
            words.append(word)
    library = folder / "libtenon.so.0"
    words[words.index("-o") + 1] = str(library)
    subprocess.run(words, cwd=build, check=True)
    return library


def end_session(session):
    """Ends the processes of a session. Criterion's have groups of their own, and would keep the pipe open until the limit of their test."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            if int(file.read_text().rpartition(")")[2].split()[3]) == session:
                os.kill(int(file.parent.name), signal.SIGKILL)


def failed_tests(program, environment, limit, test=None):
    """Names of the tests of a Criterion program that failed, up to the first or those that ran beside it; `program` may be a list of
    words that run it. All tests are skipped where there is no device, which a mutant may cause. `test`, as suite/name, is the only one
    that runs; that it is skipped says nothing. After `limit` seconds the program is ended, which is a failure."""
    words = program if isinstance(program, list) else [program]
    selected = ["--filter", test] if test else []  # of two filters the last one holds
    with tempfile.TemporaryDirectory() as folder:  # programs that are killed leave their files behind
        run = subprocess.Popen([*words, *selected, "-j2", "--fail-fast"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=dict(environment, TMPDIR=folder), start_new_session=True)
        try:
            said, _ = run.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            end_session(run.pid)
            run.communicate()
            return ["(the program does not end)"]
    failed = [line.split()[1].rstrip(":") for line in said.splitlines() if line.startswith("[FAIL]")]
    if "Tested: 0 " in said and not test:
        failed.append("(all tests are skipped)")
    return failed or (["(the program)"] if run.returncode else [])


def tests_of(program, environment):
    """The tests of a Criterion program, as suite/name."""
    words = program if isinstance(program, list) else [program]
    listed = subprocess.run([*words, "--list"], check=True, capture_output=True, text=True, env=environment).stdout
    tests, suite = set(), None
    for line in listed.splitlines():
        if heading := re.match(r"(\w+): \d+ test", line):
            suite = heading[1]
        elif test := re.search(r"── (\w+)", line):
            tests.add(f"{suite}/{test[1]}")
    return tests


def at_once(function, mutants):
    """The function's results for these mutants in their order, two at a time: one is compiled while the tests of another wait."""
    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(function, mutants)


def hunt(build, mutants, subject, sound, make):
    """Runs the tests on the subject as it is, then on each mutant (what, file, text, replacement, test), and prints what they find.
    `sound` is the program of the subject as it is and its environment, make(folder, file, text, replacement) gives those of a mutant,
    or None where the text is not there once. The test of a mutant, which may be left out, only saves time: it runs first, and all
    tests run where it finds nothing. A mutant may take five times as long as the subject as it is, one test as long as all tests
    there. Returns the exit status."""
    began = time.monotonic()
    failed = failed_tests(*sound, 300)
    took = time.monotonic() - began
    tests = tests_of(*sound)
    if failed:
        print(f"the {subject} as it is fails: {' '.join(failed)}\n0 passed, 1 failed, 0 skipped")
        return 1

    def try_one(mutant):
        _, file, old, new, *first = mutant
        with tempfile.TemporaryDirectory(dir=build) as name:
            made = make(Path(name), file, old, new)
            found = failed_tests(*made, max(10, took), first[0]) if made and first else []
            return mutant, made, found or (failed_tests(*made, max(20, 5 * took)) if made else [])

    passed = 0
    for (what, file, _, _, *first), made, found in at_once(try_one, mutants):
        is_there = tests.issuperset(first)
        state = "NO TEXT" if not made else "NO TEST" if not is_there else "found " if found else "MISSED"
        print(f"{state}  {what:52} {file:26} {len(found):2} tests, {found[0] if found else 'none'}")
        passed += state == "found "
    print(f"{passed} passed, {len(mutants) - passed} failed, 0 skipped")
    return int(passed != len(mutants))


def hunt_library(build, program, environment, mutants, options=()):
    """The same for libtenon, which the program finds by LD_PRELOAD. A mutant's file is compiled with `options` in place of -O3."""
    commands = library_commands(build)
    if not is_plain(commands):
        return SKIPPED

    def make(folder, *mutant):
        made = compile_mutant(build, commands, folder, *mutant, options=options)
        return made and (program, {**environment, "LD_PRELOAD": str(link_library(build, folder, *made))})

    return hunt(build, mutants, "library", (program, environment), make)


def hunt_plugin(build, program, name, mutants):
    """The same for a device plugin: each mutant is linked as the build did, into a plugin folder of its own. A file that is not of
    the plugin is one of libtenon, of which the program gets a mutant."""
    library = f"plugins/{name}/libtenon_{name}.so"
    commands = library_commands(build) | compile_commands(build, lambda output: output.startswith(library))
    if not is_plain(commands):
        return SKIPPED
    command = link_command(build, library)

    def make_plugin(folder, replaced, target):
        words = [str(target) if w == replaced else w for w in command]
        words[words.index("-o") + 1] = str(folder / Path(library).name)
        subprocess.run(words, cwd=build, check=True)
        shutil.copy(build / "plugins" / name / f"{name}.json", folder)
        return {"TENON_PLUGIN_ADD": str(folder)}

    def make(folder, file, old, new):
        made = compile_mutant(build, commands, folder, file, old, new)
        if not made:
            return None
        if made[0].startswith(library):
            changed = make_plugin(folder, *made)
        else:  # a libtenon looks for plugins, and for its helper, beside itself
            changed = {"TENON_PLUGIN_ADD": str(build / "plugins" / name), "LD_PRELOAD": str(link_library(build, folder, *made)),
                       "TENON_PLUGIN_PROBE": "never", "TENON_PLUGIN_PATH": f"{build}/plugins/{name}:{build}/plugins/cpu"}
        return program, os.environ | changed

    return hunt(build, mutants, "plugin", (program, os.environ | {"TENON_PLUGIN_ADD": str(build / "plugins" / name)}), make)
