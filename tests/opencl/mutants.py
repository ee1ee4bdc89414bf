#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the waits of the OpenCL plugin out one by one and shows that waits.c finds each.

    mutants.py BUILD PROGRAM
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import mutation  # noqa: E402

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
    ("close: the wait for callbacks", "plugins/gpu/callbacks.c",
     "while (c->running) pthread_cond_wait(&c->idle, &c->lock);", ""),
    ("wait for an event of another device", "plugins/gpu/plugin.c",
     "status = driver->event_wait(r->device->handle, r->event);\n    }\n    record_release(r);", "}\n    record_release(r);"),
    ("synchronise a stream", "plugins/gpu/plugin.c", "if (!status) status = driver->queue_finish(s->device->handle, s->queue);", ""),
    ("nonzero: the wait for the count", "plugins/gpu/index.c",
     "if (!status) status = gpu_the_driver.queue_finish(d->handle, queue);", ""),
]


if __name__ == "__main__":
    sys.exit(mutation.hunt_plugin(Path(sys.argv[1]).resolve(), sys.argv[2], "opencl", MUTANTS))
