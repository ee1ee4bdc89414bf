# SPDX-License-Identifier: Apache-2.0
"""What the tests of tests share: a mutant is one file of the tree with one text replaced, compiled as the build compiled the
original. A mutant that no test notices is a failure; so is a text that is not found exactly once, which means that the table
of mutants has to follow the source.
"""
import json
import os
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
    subprocess.run([*keep, f"-I{(ROOT / file).parent}", "-w", *options, "-c", str(changed), "-o", str(target)], cwd=build, check=True)
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


def failed_tests(program, environment, limit):
    """Names of the tests of a Criterion program that failed, up to the first or those that ran beside it; `program` may be a list of
    words that run it. Tests are skipped where there is no device, which a mutant may cause. After `limit` seconds the program is ended,
    which is a failure."""
    words = program if isinstance(program, list) else [program]
    with tempfile.TemporaryDirectory() as folder:  # programs that are killed leave their files behind
        run = subprocess.Popen([*words, "-j2", "--fail-fast"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=dict(environment, TMPDIR=folder), start_new_session=True)
        try:
            said, _ = run.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
            return ["(the program does not end)"]
    failed = [line.split()[1].rstrip(":") for line in said.splitlines() if line.startswith("[FAIL]")]
    if "Tested: 0 " in said:
        failed.append("(all tests are skipped)")
    return failed or (["(the program)"] if run.returncode else [])


def at_once(function, mutants):
    """The function's results for these mutants in their order, two at a time: one is compiled while the tests of another wait."""
    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(function, mutants)


def hunt(build, mutants, subject, compile_one, run):
    """Runs the tests on the subject as it is, then on each mutant (what, file, text, replacement), and prints what they find.
    `compile_one(folder, file, text, replacement)` is as compile_mutant; run(folder, made, limit) gives the failed tests, with None
    and None for the subject as it is. A mutant may take five times as long as that. Returns the exit status."""
    began = time.monotonic()
    sound = run(None, None, 300)
    limit = max(20, 5 * (time.monotonic() - began))
    if sound:
        print(f"the {subject} as it is fails: {' '.join(sound)}\n0 passed, 1 failed, 0 skipped")
        return 1

    def try_one(mutant):
        with tempfile.TemporaryDirectory(dir=build) as name:
            made = compile_one(Path(name), *mutant[1:])
            return mutant, made, run(Path(name), made, limit) if made else []

    passed = failed = 0
    for (what, file, _, _), made, found in at_once(try_one, mutants):
        state = "found " if found else "MISSED" if made else "NO TEXT"
        print(f"{state}  {what:52} {file:26} {len(found):2} tests, {found[0] if found else 'none'}")
        passed += bool(found)
        failed += not found
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return int(failed != 0)


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

    def run(folder, made, limit):
        changed = {"TENON_PLUGIN_ADD": str(build / "plugins" / name)}
        if made and made[0].startswith(library):
            changed = make_plugin(folder, *made)
        elif made:  # a libtenon looks for plugins, and for its helper, beside itself
            changed = {"LD_PRELOAD": str(link_library(build, folder, *made)), "TENON_PLUGIN_PROBE": "never",
                       "TENON_PLUGIN_PATH": f"{build}/plugins/{name}:{build}/plugins/cpu"}
        return failed_tests(program, os.environ | changed, limit)

    return hunt(build, mutants, "plugin", lambda *mutant: compile_mutant(build, commands, *mutant), run)
