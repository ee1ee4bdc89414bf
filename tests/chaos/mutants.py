#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the library's waits out one by one and shows that the adversarial reference device finds each.

Private pools, the memory of graphs and the statistics have mutants of their own. Each mutant of a file of the library is linked
with everything else into a libtenon of its own, and put before the tests of waits.c, backward.c and pools.c.
"""
import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import mutation  # noqa: E402

# (what is forgotten, file, text, replacement, the test that runs first)
MUTANTS = [
    ("a copy between host and device: the wait for it", "core/copies.c",
     "if (!is_async) return finish_copy(d, status, what);", "",
     "backward/accumulates_in_a_leaf_after_both"),
    ("a copy to a device that is not waited for: the use of the pinned block", "core/copies.c",
     "if (!status && is_async) status = tni_block_record(c->block, stream);\n    return status ? status : end_copy(c->device, queue_to_device",
     "return status ? status : end_copy(c->device, queue_to_device",
     "waits/a_copy_from_pinned_memory_returns_and_keeps_its_source"),
    ("a copy from a device that is not waited for: the use of the pinned block", "core/copies.c",
     "if (!status && is_async) status = tni_block_record(c->block, stream);\n    return status ? status : end_copy(c->device, queue_to_host",
     "return status ? status : end_copy(c->device, queue_to_host",
     "waits/a_copy_to_pinned_memory_returns_and_keeps_its_target"),
    ("a staged copy: the use of its block", "core/copies.c",
     "int32_t status = tni_block_record(block, stream);", "int32_t status = TN_OK;",
     "waits/a_staged_copy_returns_and_keeps_its_block"),
    ("a copy between devices: the source has written the piece", "core/copies.c",
     "int32_t status = tn_event_synchronize(b->read);", "int32_t status = TN_OK;",
     "waits/a_copy_between_devices_that_are_no_peers"),
    ("a copy between devices: the target has read the piece before", "core/copies.c",
     "int32_t status = tn_event_synchronize(b->written);", "int32_t status = TN_OK;",
     "waits/a_copy_between_devices_that_are_no_peers"),
    ("a copy between devices: its buffers stay until they are read", "core/copies.c",
     "buffer *k = b->host ? tni_alloc(ctx, sizeof *k) : NULL;", "free_buffer(b);\n    buffer *k = NULL;",
     "waits/a_copy_between_devices_that_are_no_peers"),
    ("a copy between peers: the target's stream waits for the source's", "core/copies.c",
     "if (!status) status = tn_stream_wait_stream(stream, source);", "",
     "backward/across_two_devices_and_four_streams"),
    ("a copy between peers: the source's stream waits for the copy", "core/copies.c",
     "status = tni_stream_order(source, stream);", "status = TN_OK;",
     "waits/a_copy_between_peers_is_ordered_on_both_sides"),
    ("a stream's wait for an event", "core/event.c",
     "status = driver->stream.wait_event(driver->self, d->handle, stream->handle, event->handle);", "status = TN_OK;",
     "backward/accumulates_in_a_leaf_after_both"),
    ("a stream's wait for a stream", "core/event.c",
     "if (!status) status = tn_stream_wait_event(stream, event);", "",
     "backward/accumulates_in_a_leaf_after_both"),
    ("record_stream: the use of a block is noted", "core/allocator.c",
     "int32_t known = u || own == stream;", "int32_t known = 1; (void)own;",
     "backward/keeps_a_captured_gradient_until_the_caller_has_read_it"),
    ("a freed block: the events of other streams", "core/allocator.c",
     "int32_t passed = tni_stream_captures(u->stream) ? 1 : tn_event_query(u->event);", "int32_t passed = 1;",
     "backward/keeps_a_captured_gradient_until_the_caller_has_read_it"),
    ("a growing storage: the old block's use by the copy", "core/storage.c",
     "status = tni_block_record(before, tni_current_stream(s->device));", "status = TN_OK;",
     "waits/a_storage_that_grows_keeps_the_old_block_until_it_is_copied"),
    ("memory that goes back to the device: the wait for its work", "core/allocator.c",
     'tni_late_keep(a->device, tni_device_wait(a->device), "waiting for a device whose memory goes back");', "(void)0;"),
    ("a private pool: others get its memory", "core/allocator_pool.c", "p->capture == capture && p->number == number)",
     "p->capture == capture)",
     "pools/private_memory_serves_its_pool_alone"),
    ("a graph: others get its memory", "core/allocator_pool.c", "p->capture == capture && p->number == number)",
     "p->number == number)",
     "pools/memory_of_a_graph_stays_while_it_can_be_replayed"),
    ("a pool: memory of one stream is given to another", "core/allocator_pool.c", "if (p->stream == stream && p->small == small",
     "if (p->small == small",
     "backward/keeps_a_captured_gradient_until_the_caller_has_read_it"),
    ("a graph: its free memory goes back to the device early", "core/allocator_pool.c",
     "if (!is_wholly_free(s) || s->is_captured) continue;", "if (!is_wholly_free(s)) continue;",
     "pools/memory_of_a_graph_stays_while_it_can_be_replayed"),
    ("a graph: a block that another captured stream reads", "core/allocator_pool.c", "if (shared && !pool->ended) {", "if (0) {",
     "pools/a_block_that_another_captured_stream_reads"),
    ("a private pool that ends: its memory is still counted as private", "core/allocator.c", "            uncount_private(a, pool);\n",
     "",
     "pools/a_pool_that_ends_leaves_its_memory"),
    ("statistics: a freed block", "core/allocator.c", "    count_blocks(a, b, -1);\n", "",
     "pools/a_pool_that_ends_leaves_its_memory"),
    ("statistics: a freed allocation", "core/allocator_pool.c", "    count_allocations(a, s, -1);\n", "",
     "pools/statistics_fall_when_memory_is_freed"),
    ("statistics: a freed block of a private pool", "core/allocator.c",
     "    stats->allocated_bytes += (uint64_t)(blocks * (int64_t)b->bytes);\n",
     "    stats->allocated_bytes += (uint64_t)b->bytes;\n",
     "pools/statistics_fall_when_memory_is_freed"),
    ("what a kernel keeps alive: the wait for its stream", "dispatcher/kernel.c",
     "if (kept->is_block) {", "if (1) {",
     "waits/what_a_kernel_keeps_alive_stays_until_the_stream_has_passed"),
    ("backward: a gradient handed over, the wait", "autograd/engine.c",
     "int32_t status = tn_stream_wait_stream(to, from);\n    return status ? status : tn_record_stream(grad, to);",
     "return tn_record_stream(grad, to);",
     "backward/accumulates_in_a_leaf_after_both"),
    ("backward: a gradient handed over, its block", "autograd/engine.c",
     "return status ? status : tn_record_stream(grad, to);", "return status;",
     "backward/keeps_a_captured_gradient_until_the_caller_has_read_it"),
    ("backward: the caller's first gradient", "autograd/engine.c",
     "tn_stream *from = device && !device->synchronous ? caller_stream(run, device) : NULL;", "tn_stream *from = NULL; (void)device;",
     "backward/across_two_devices_and_four_streams"),
    ("backward: a sum on the stream of its reader", "autograd/engine.c",
     "tn_stream *before = *in ? switch_stream(run->ctx, stream) : NULL;", "tn_stream *before = NULL;",
     "backward/accumulates_in_a_leaf_after_both"),
    ("backward: a captured gradient for the caller", "autograd/engine.c",
     "status = hand_over(grad, stream_of(run, e->node, grad), caller_stream(run, device));", "status = TN_OK;",
     "backward/keeps_a_captured_gradient_until_the_caller_has_read_it"),
    ("backward: the streams joined at the end", "autograd/engine.c",
     "if (!status) status = join_streams(run);", "(void)join_streams;",
     "backward/leaves_a_retained_gradient_for_the_caller"),
    ("backward: a function works on its forward's stream", "autograd/custom_function.c",
     "c->node.stream = tni_working_stream(outs[0]);", "",
     "backward/of_a_function_works_on_the_stream_of_its_forward"),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--only", default="", help="mutants whose description contains this")
    o = parser.parse_args()
    build = o.build.resolve()
    environment = dict(os.environ, TENON_REFERENCE_LAZY="3000", TENON_REFERENCE_DEVICES="2",
                       TENON_PLUGIN_PATH=f"{build}/plugins/reference:{build}/plugins/cpu")

    return mutation.hunt_library(build, o.program, environment, [m for m in MUTANTS if o.only in m[0]], ["-O1"])


if __name__ == "__main__":
    sys.exit(main())
