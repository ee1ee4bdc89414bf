#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the waits of the OpenCL plugin out one by one and shows that waits.c finds each.

    mutants.py BUILD PROGRAM

A mutant is one file of the plugin with one text replaced: it is compiled and linked as the build did, into a plugin folder of its
own. A mutant that no test notices is a failure, and so is a text that is not found exactly once.
"""
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARY = "plugins/opencl/libtenon_opencl.so"

# (what is forgotten, file, text, replacement)
MUTANTS = [
    ("synchronise: clFinish", "plugins/opencl/opencl.c", "check_work(d, d->cl->clFinish(q->queue))",
     "check_work(d, d->cl->clFlush(q->queue))"),
    ("query: the marker behind the work", "plugins/opencl/opencl.c",
     "if (!status && q->finished < q->queued) status = event_state(d, q->marker, &done);", "done = 1;"),
    ("query: a marker for later work", "plugins/opencl/opencl.c",
     "if (q->finished < q->queued && q->marked < q->queued) status = mark(d, q);",
     "if (!q->marker) status = mark(d, q);\n    q->marked = q->queued;"),
    ("wait: the barrier", "plugins/opencl/opencl.c",
     "return queued(d, q, d->cl->clEnqueueBarrierWithWaitList(q->queue, 1, &waited, NULL), \"a barrier\");",
     "(void)waited;\n    return queued(d, q, CL_SUCCESS, \"a barrier\");"),
    ("event: the wait of the host", "plugins/opencl/opencl.c", "return check_work(d, d->cl->clWaitForEvents(1, &waited));",
     "(void)waited;\n    return check_work(d, CL_SUCCESS);"),
    ("event: the state", "plugins/opencl/opencl.c", "return event_state(device, event, out_done);",
     "*out_done = 1;\n    return TN_OK;"),
    ("elapsed: the wait for both events", "plugins/opencl/opencl.c", "cl_int status = d->cl->clWaitForEvents(2, ends);",
     "cl_int status = CL_SUCCESS;\n    (void)ends;"),
    ("callback: the wait for the work before it", "plugins/opencl/opencl.c", "d->cl->clWaitForEvents(1, &c->reached);", ""),
    ("callback: the barrier for later work", "plugins/opencl/opencl.c",
     "failed = queued(d, q, d->cl->clEnqueueBarrierWithWaitList(q->queue, 1, &returned, NULL), \"a barrier\");", "failed = 0;"),
    ("close: the wait for callbacks", "plugins/opencl/opencl.c",
     "while (d->callbacks) pthread_cond_wait(&d->idle, &d->lock);", ""),
    ("wait for an event of another device", "plugins/gpu/plugin.c",
     "else if (r) /* of another device, with a context of its own */\n        status = driver->event_wait(r->device->handle, r->event);", ""),
    ("synchronise a stream", "plugins/gpu/plugin.c", "if (!status) status = driver->queue_finish(s->device->handle, s->queue);", ""),
    ("nonzero: the wait for the count", "plugins/gpu/index.c",
     "if (!status) status = gpu_the_driver.queue_finish(d->handle, queue);", ""),
    ("faults: the wait for the read", "plugins/gpu/launch.c",
     "if (!status) status = gpu_the_driver.queue_finish(d->handle, stream->queue);\n    if (status || fault[0]", "if (status || fault[0]"),
]


def mutant_object(build, commands, folder, file, old, new):
    """The names of the object that is replaced and of the one that replaces it; None when the text is not there once."""
    text = (ROOT / file).read_text()
    if text.count(old) != 1:
        return None
    changed = folder / Path(file).name
    changed.write_text(text.replace(old, new))
    words = shlex.split(commands[file]["command"])
    replaced = words[words.index("-o") + 1]
    keep = [w for i, w in enumerate(words) if w not in ("-MD", "-c", "-o", "-MQ", "-MF") and words[i - 1] not in ("-MQ", "-MF", "-c", "-o")]
    target = folder / "mutant.o"
    subprocess.run([*keep, f"-I{(ROOT / file).parent}", "-w", "-c", str(changed), "-o", str(target)], cwd=build, check=True)
    return replaced, target


def link(build, command, folder, replaced, target):
    words = [str(target) if w == replaced else w for w in command]
    words[words.index("-o") + 1] = str(folder / "libtenon_opencl.so")
    subprocess.run(words, cwd=build, check=True)
    shutil.copy(build / "plugins" / "opencl" / "opencl.json", folder)


def failed_tests(program, folder):
    run = subprocess.run([program, "-j2"], capture_output=True, text=True, timeout=300, env=dict(os.environ, TENON_PLUGIN_ADD=str(folder)))
    failed = [line.split()[1].rstrip(":") for line in (run.stdout + run.stderr).splitlines() if line.startswith("[FAIL]")]
    return failed or (["(the program)"] if run.returncode else [])


def main():
    build, program = Path(sys.argv[1]).resolve(), sys.argv[2]
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = (Path(entry["directory"]) / entry["file"]).resolve()
        if path.is_relative_to(ROOT) and entry["output"].startswith(LIBRARY):
            commands[str(path.relative_to(ROOT))] = entry
    if any("-fsanitize" in e["command"] for e in commands.values()):
        print("skipped: the mutants are made of plain builds only\n0 passed, 0 failed, 1 skipped")
        return 77
    listed = subprocess.run(["ninja", "-C", build, "-t", "commands", LIBRARY], check=True, capture_output=True, text=True)
    command = shlex.split([line for line in listed.stdout.splitlines() if f"-o {LIBRARY}" in line][-1])
    sound = failed_tests(program, build / "plugins" / "opencl")
    if sound:
        print(f"the plugin as it is fails: {' '.join(sound)}\n0 passed, 1 failed, 0 skipped")
        return 1
    passed = failed = 0
    for what, file, old, new in MUTANTS:
        with tempfile.TemporaryDirectory(dir=build) as name:
            folder, found = Path(name), []
            made = mutant_object(build, commands, folder, file, old, new)
            if made:
                link(build, command, folder, *made)
                found = failed_tests(program, folder)
        state = "found " if found else "MISSED" if made else "NO TEXT"
        print(f"{state}  {what:45} {file:26} {len(found):2} tests, {found[0] if found else 'none'}")
        passed += bool(found)
        failed += not found
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
