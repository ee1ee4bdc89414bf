#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the waits, the order and the lifetimes of the XPU plugin out one by one and shows that waits.c, or the test driver that
watches the plugin, finds each.

    mutants.py BUILD PROGRAM
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import mutation  # noqa: E402

FILE = "plugins/xpu/queue.c"
# (what is forgotten, file, text, replacement)
MUTANTS = [
    ("order: the barrier between two commands", FILE,
     "int32_t status = q->is_open || q->is_wrapped ? append_barrier(d, q, NULL, NULL) : TN_OK;", "int32_t status = TN_OK;"),
    ("synchronise: the wait", FILE,
     "status = xpu_check(d, d->ze->zeEventHostSynchronize(q->reached->handle, FOR_EVER), \"queued work\");", "(void)d;"),
    ("query: the state of the marker", FILE,
     "if (!status && q->finished < q->queued) status = event_state(d, q->marker, &done);", "done = 1;"),
    ("query: a marker for later work", FILE, "if (q->finished < q->queued && q->marked < q->queued) status = mark(d, q);",
     "if (!q->marker) status = mark(d, q);\n    q->marked = q->queued;"),
    ("wait: the event", FILE, "status = append_barrier(d, q, NULL, event);", "status = append_barrier(d, q, NULL, NULL);"),
    ("event: the state", FILE, "return event_state(device, event, out_done);", "*out_done = 1;\n    return TN_OK;"),
    ("elapsed: the wait for the second event", FILE, "if (!status) status = xpu_event_wait(d, stop);", ""),
    ("elapsed: timestamps wrap", FILE, "& d->valid_ticks;", "& UINT64_MAX;"),
    ("callback: the wait for the work before it", FILE, "d->ze->zeEventHostSynchronize(c->reached->handle, FOR_EVER);", ""),
    ("callback: the wait of later work", FILE, "status = xpu_queue_wait(d, queue, returned);", ""),
    ("close: the wait for callbacks", "plugins/gpu/callbacks.c", "while (c->running) pthread_cond_wait(&c->idle, &c->lock);", ""),
    ("lifetime: an event that queues wait for", FILE,
     "__atomic_add_fetch(&((xpu_event *)event)->references, 1, __ATOMIC_RELAXED);", ""),
    ("lifetime: an event is used again before its signal", FILE,
     "if (!e || d->ze->zeEventQueryStatus(e->handle) != ZE_RESULT_SUCCESS) return NULL;", "if (!e) return NULL;"),
    ("an event is used again without a reset", FILE,
     "status = xpu_check(d, d->ze->zeEventHostReset((*out)->handle), \"zeEventHostReset\");", "status = TN_OK;"),
    ("leak: event pools", FILE, "d->ze->zeEventPoolDestroy(pool->handle);", ""),
    ("leak: command lists", FILE, "if (!q->is_wrapped) d->ze->zeCommandListDestroy(q->list);", ""),
    ("the first group of queues, whatever it does", "plugins/xpu/xpu.c",
     "while (i < n && !(groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE)) i++;", ""),
    ("a structure without its type", "plugins/xpu/program.c",
     "const ze_module_desc_t desc = {\n        .stype = ZE_STRUCTURE_TYPE_MODULE_DESC,", "const ze_module_desc_t desc = {"),
    ("threads: the lock of a list", FILE,
     "pthread_mutex_lock(&q->lock);\n    int32_t status = q->is_open", "int32_t status = q->is_open"),
]

if __name__ == "__main__":
    watched = [sys.executable, str(Path(__file__).resolve().parent / "watched.py"), sys.argv[2]]
    sys.exit(mutation.hunt_plugin(Path(sys.argv[1]).resolve(), watched, "xpu", MUTANTS))
