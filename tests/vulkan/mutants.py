#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the waits of the Vulkan plugin out one by one and shows that waits.c finds each, behind a layer that delays kernels and
reports what is used too early. Barriers are not among them: lavapipe runs commands in order without any.

    mutants.py BUILD PROGRAM
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import mutation  # noqa: E402

FILE = "plugins/vulkan/queue.c"
# (what is forgotten, file, text, replacement)
MUTANTS = [
    ("synchronise: the wait", FILE, "if (!status) status = wait_for(d, q->timeline, last);", "(void)last;"),
    ("query: the state of the stream", FILE, "if (!status) status = reached(d, q->timeline, q->timeline->last, &done);", "done = 1;"),
    ("query: what is encoded is committed", FILE,
     "int32_t status = vulkan_commit(q);\n    if (!status) status = reached", "int32_t status = TN_OK;\n    if (!status) status = reached"),
    ("a read: the wait for the stream", "plugins/vulkan/memory.c",
     "if (!status && !is_idle) status = vulkan_queue_finish(d, q);", ""),
    ("wait: the event", FILE, "q->open->waits[q->open->n_waits++] = (vulkan_wait){e->timeline, e->value};", "e->timeline->references--;"),
    ("event: the wait of the host", FILE, "return wait_for(device, e->timeline, e->value);", "(void)e;\n    return TN_OK;"),
    ("event: the state", FILE, "return reached(device, e->timeline, e->value, out_done);", "(void)e;\n    *out_done = 1;\n    return TN_OK;"),
    ("event: what it stands behind is committed", FILE,
     "q->open->n_commands++;\n        status = vulkan_commit(q);", "q->open->n_commands++;"),
    ("callback: the wait for the work before it", FILE, "int32_t status = wait_for(d, q->timeline, b->value - 1);", "int32_t status = TN_OK;"),
    ("callback: later work is held back", FILE,
     "if (b->callback) return b->is_started ? TN_OK : start_callback(q);",
     "if (b->callback && !b->is_started) return start_callback(q);\n    if (b->callback && b->next) { vulkan_batch *l = b->next; "
     "b->next = l->next; if (!b->next) q->last_closed = b; l->next = q->submitted; q->submitted = l; "
     "if (!q->last_submitted) q->last_submitted = l; *out_moved = 1; return submit(q, l); }\n    if (b->callback) return TN_OK;"),
    ("lifetime: commands are used again before they have run", FILE,
     "while (!status && q->submitted && q->submitted->value <= now) {", "while (!status && q->submitted && (now || 1)) {"),
    ("lifetime: a timeline that batches wait for", FILE, "e->timeline->references++;\n        q->open->waits", "q->open->waits"),
]

if __name__ == "__main__":
    watched = [sys.executable, str(Path(__file__).resolve().parent.parent / "xpu" / "watched.py"), sys.argv[2]]
    sys.exit(mutation.hunt_plugin(Path(sys.argv[1]).resolve(), watched, "vulkan", MUTANTS))
