#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon check` finds every fault of this table, each by the case that is named beside it.

    mutants.py --build BUILD --tenon TENON [--only RE]
    mutants.py --table

A mutant is the reference plugin with one text of one file replaced, compiled as the build compiled the original. What a right plugin may do
is done, too, and must pass. A mutant that its case does not find is a failure; so is a text that is not found exactly once: the table follows the source. --table prints
the table, which docs/kit.md must have as it is.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import mutation  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
PLUGIN = "plugins/reference"

# The reference plugin has no kernels of layers: those of tests/kit/layers.c are added.
KERNELS = ("static const tn_kernel_row rows[] = {\n", """\
int32_t kernel_attention(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_convolution(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_convolution_backward(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_gelu(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_group_norm(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_layer_norm(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_linear(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_relu(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_softmax(const tn_call *call, int32_t is_log, reference_failure *failure);
static const tn_kernel_row rows[] = {
    ROW(0, "aten::gelu", "(Tensor self, *, str approximate=\\"none\\") -> Tensor", floats, kernel_gelu, 0, 1),
    ROW(0, "aten::native_layer_norm", "(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
        "(Tensor, Tensor, Tensor)", floats, kernel_layer_norm, 0, 0),
    ROW(0, "aten::native_group_norm", "(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, "
        "float eps) -> (Tensor, Tensor, Tensor)", floats, kernel_group_norm, 0, 0),
    ROW(0, "aten::convolution", "(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
        "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor", floats, kernel_convolution, 0, 0),
    ROW(0, "aten::convolution_backward", "(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, "
        "SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> "
        "(Tensor, Tensor, Tensor)", floats, kernel_convolution_backward, 0, 0),
    ROW(0, "aten::linear", "(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", floats, kernel_linear, 0, 0),
    ROW(0, "aten::_scaled_dot_product_flash_attention_for_cpu", "(Tensor query, Tensor key, Tensor value, float dropout_p=0., "
        "bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)", floats,
        kernel_attention, 0, 0),
    ROW(0, "aten::relu", "(Tensor self) -> Tensor", floats, kernel_relu, 0, 1),
    ROW(0, "aten::_softmax", "(Tensor self, int dim, bool half_to_float) -> Tensor", floats, kernel_softmax, 0, 0),
    ROW(0, "aten::_log_softmax", "(Tensor self, int dim, bool half_to_float) -> Tensor", floats, kernel_softmax, 1, 0),
""")

# (fault, file, text, replacement, the case that finds it)
MUTANTS = [
    ("stream.query always says done", "stream.c", "*out_done = s->finished == s->queued;", "*out_done = 1;",
     "0/unfinished/stream.query"),
    ("stream.query never says done", "stream.c", "*out_done = s->finished == s->queued;", "*out_done = 0;", "0/stream/create"),
    ("stream.synchronize does not wait", "stream.c", "    reference_stream_wait(stream);\n    return report(stream);",
     "    return report(stream);", "0/unfinished/stream.synchronize"),
    ("device.synchronize does not wait", "stream.c", "if (s->device == device) reference_stream_wait(s);", ";",
     "0/unfinished/device.synchronize"),
    ("stream.wait_event does not wait", "stream.c", "return status ? status : reference_event_wait(event, stream);", "return status;",
     "0/unfinished/stream.wait_event"),
    ("host callbacks run at once", "stream.c", "    callback_task *c = reference_task_create(sizeof(*c), run_callback);",
     "    callback(user);\n    return TN_OK;\n    callback_task *c = reference_task_create(sizeof(*c), run_callback);",
     "0/unfinished/stream.host_callback"),
    ("host callbacks never run", "stream.c", "c->callback(c->user);", "(void)c;", "0/unfinished/stream.host_callback"),
    ("late errors are never reported", "stream.c", 'if (status) return reference_error(s->device->state, status, "%s", text);', "",
     "1/gather/aten::gather/out-of-range/one-too-large"),
    ("a late error is reported for ever", "stream.c", "    s->error_status = 0;\n    pthread_mutex_unlock(&s->lock);\n    if (status)",
     "    pthread_mutex_unlock(&s->lock);\n    if (status)", "1/gather/aten::gather/out-of-range/one-too-large"),
    ("interop.wait_native does not wait", "interop.c", "return reference_event_wait(event, (reference_stream *)(uintptr_t)native);",
     "return TN_OK;", "0/unfinished/interop.wait_native"),
    ("the devices have one native handle", "plugin.c", "*out = ((reference_device *)device)->index;", "*out = 0;", "4/devices/native"),
    ("event.elapsed gives nanoseconds", "event.c", "*out_ms = to - from;", "*out_ms = (to - from) * 1e6;", "0/event/timing"),
    ("event.elapsed takes a pending event for done", "event.c", "good = (e->flags & TN_EVENT_TIMING) && r->reached;",
     "good = (e->flags & TN_EVENT_TIMING) != 0;", "0/unfinished/event.elapsed"),
    ("event.query always says done", "event.c", "*out_done = r->reached;", "*out_done = 1;", "0/unfinished/event.query"),
    ("event.query never says done", "event.c", "*out_done = r->reached;", "*out_done = 0;", "0/event/states"),
    ("event.synchronize does not wait", "event.c", "    if (r) wait_for(r);\n    release(r);", "    release(r);",
     "0/unfinished/event.synchronize"),
    ("copies from pinned memory wait for their stream", "memory.c",
     '    int32_t status = reference_stream_check_runs(stream, "a copy from the host");\n',
     '    if (pinned) reference_stream_wait(stream);\n'
     '    int32_t status = reference_stream_check_runs(stream, "a copy from the host");\n', "0/pinned/to-device"),
    ("copies to pinned memory are made at once", "memory.c",
     "    return from ? push_transfer(self, host, from, bytes, 0, stream) : TN_E_CONTRACT;",
     "    if (from && pinned) return memcpy(host, from, bytes), TN_OK;\n"
     "    return from ? push_transfer(self, host, from, bytes, 0, stream) : TN_E_CONTRACT;", "0/pinned/to-host"),
    ("copies from pinned memory are made at once", "memory.c",
     "    return to ? push_transfer(self, to, host, bytes, 0, stream) : TN_E_CONTRACT;",
     "    if (to && pinned) return memcpy(to, host, bytes), TN_OK;\n"
     "    return to ? push_transfer(self, to, host, bytes, 0, stream) : TN_E_CONTRACT;", "0/pinned/to-device"),
    ("events do not wait for copies from pinned memory", "event.c", "*out_done = r->reached;", "*out_done = 1;", "0/pinned/event"),
    ("pinned memory has the kind of device memory", "memory.c", "out->kind = TN_MEMORY_HOST;", "out->kind = TN_MEMORY_DEVICE;",
     "0/pinned/memory"),
    ("memory.unpin unpins other memory", "memory.c",
     "while (*link && ((*link)->host != memory->host || (*link)->device != device)) link = &(*link)->next;", ";",
     "0/pinned/memory"),
    ("copies forget where in pinned memory they begin", "memory.c",
     "char *to = reference_resolve(device, allocation, offset, bytes);\n    return to ? push_transfer(self, to, host,",
     "char *to = reference_resolve(device, allocation, offset, bytes);\n    if (pinned) host = pinned->host;\n"
     "    return to ? push_transfer(self, to, host,", "0/pinned/memory"),
    ("gather does not check indices", "index.c",
     "int32_t status = read_position(positions, index, dim, tensor_size(t, dim), &from[dim], failure);",
     "int32_t status = TN_OK;\n        from[dim] = tensor_load(positions, index).i;",
     "1/gather/aten::gather/out-of-range/one-too-large"),
    ("scatter does not check indices", "index.c",
     "int32_t status = read_position(positions, index, dim, tensor_size(out, dim), &to[dim], failure);",
     "int32_t status = TN_OK;\n        to[dim] = tensor_load(positions, index).i;",
     "1/scatter/aten::scatter_.src/out-of-range/one-too-large"),
    ("negative indices are not refused", "index.c", "if (position < 0 || position >= size)", "if (position >= size)",
     "1/scatter/aten::scatter_add_/out-of-range/negative"),
    ("scatter_reduce ignores include_self", "index.c",
     "int include_self = opcode != SCATTER_REDUCE_TWO || tn_value_as_bool(call->args[5]);", "int include_self = 1;",
     "1/scatter/aten::scatter_reduce_.two/float32/sum-without-self-contiguous"),
    ("layer_norm ignores eps", "layers.c", "eps = tn_value_as_float(call->args[4]);", "eps = 1e-5;",
     "1/options/aten::native_layer_norm/eps=0.25"),
    ("gelu ignores approximate", "layers.c", "double y = tanh_form ?", "double y = tanh_form && 0 ?",
     "1/options/aten::gelu/approximate=tanh"),
    ("gelu always approximates", "layers.c", "double y = tanh_form ?", "double y = tanh_form || 1 ?",
     "1/options/aten::gelu/approximate=none"),
    ("add ignores alpha", "pointwise.c", "p.alpha = call->n_args > 2 ? number_of_value(call->args[2]) : p.alpha;", ";",
     "1/options/aten::add.Tensor/alpha=0.25"),
    ("div ignores rounding_mode", "pointwise.c", "p.rounding = call->args[2].as.string[0];", "p.rounding = 'f';",
     "1/options/aten::div.Tensor_mode/rounding_mode=trunc"),
    ("random numbers ignore the offset", "random.c", ".offset = (uint64_t)tn_value_as_int(call->args[5]),", ".offset = 0,",
     "1/random/prim::random/float32/uniform-contiguous"),
    ("sort is not stable", "sort.c", "return (a->position > b->position) - (a->position < b->position);",
     "return (a->position < b->position) - (a->position > b->position);", "1/sort/aten::sort.stable/float32/contiguous"),
    ("sort puts NaN first", "sort.c", "nan_a - nan_b :", "nan_b - nan_a :", "1/sort/aten::sort.stable/float32/special"),
    ("copies forget where in the source they begin", "memory.c", "reference_resolve(from_device, from, from_offset, bytes)",
     "reference_resolve(from_device, from, 0, bytes)", "0/slot/copy.peer"),
    ("an average over ranks is a sum", "collectives.c", "if (m->reduction == TN_REDUCE_AVERAGE) {", "if (0) {",
     "4/collectives/all_reduce/average/float32"),
    ("a message of one rank is read by nobody", "board.c", "memcpy(data + at, slot", "memcpy(data, slot + 4",
     "4/collectives/send"),
    ("memory of another library begins at its allocation", "interop.c", "out->offset = offset;", "out->offset = 0;",
     "4/interop/dlpack"),
    ("memory of another process is other memory", "memory.c", "int good = reserve_entry(state) && map_twice(&a, file);",
     "int good = reserve_entry(state) && make(&a);", "4/interop/memory"),
    ("an event of another process is done at once", "event.c",
     "if (e->shared && e->shared->imported) return push_page_wait(e, stream);", "if (e->shared && e->shared->imported) return TN_OK;",
     "4/interop/event"),
    ("a setting is forgotten", "settings.c", "if (i == POISON) atomic_store(&state->chaos.poison, (int32_t)number);", "",
     "4/settings"),
    ("a launched graph does nothing", "graph.c", "for (uint32_t b = 0; idle < p->n_branches;", "for (uint32_t b = 0; 0;",
     "4/graph/replays"),
    ("a graph forgets the waits between its streams", "graph.c", "if (done[b] < after->at[b]) return 0;", ";", "4/graph/streams"),
    ("a graph is taken although a stream was not joined", "graph.c", "int joined = is_joined(c);", "int joined = 1;",
     "4/graph/streams"),
    ("an event in a capture forgets its place", "event.c", "r->place = reference_capture_place(capture, branch);", "",
     "4/graph/streams"),
    ("an updated graph runs what it ran before", "graph.c", "release_program(e->program);\n        e->program = p;",
     "release_program(p);", "4/graph/update"),
    ("a launch runs its graph twice", "graph.c", "status = push_launch(self, device, e, stream);",
     "status = push_launch(self, device, e, stream) || push_launch(self, device, e, stream);", "4/graph/training-step"),
    ("copies on a device forget where in the source they begin", "memory.c",
     "return copy(self, device, to, to_offset, device, from, from_offset, bytes, stream);",
     "return copy(self, device, to, to_offset, device, from, 0, bytes, stream);", "0/slot/copy.device_to_device"),
    ("copies on a device lose a tail of less than 8 bytes", "memory.c",
     "return copy(self, device, to, to_offset, device, from, from_offset, bytes, stream);",
     "return copy(self, device, to, to_offset, device, from, from_offset, bytes < 8 ? bytes : bytes / 8 * 8, stream);",
     "0/slot/copy.device_to_device"),
    ("copies to the host lose a tail at an odd offset", "memory.c", "push_transfer(self, host, from, bytes, 0, stream)",
     "push_transfer(self, host, from, offset % 2 ? bytes - bytes % 4 : bytes, 0, stream)", "0/slot/copy.device_to_host"),
    ("copies from the host lose a tail of less than 16 bytes", "memory.c", "push_transfer(self, to, host, bytes, 0, stream)",
     "push_transfer(self, to, host, bytes < 16 ? bytes : bytes / 16 * 16, 0, stream)", "0/slot/copy.host_to_device"),
    ("memory.free frees another allocation", "memory.c", "const reference_allocation *at = find(state, memory->allocation);\n"
     "    if (at) {\n        const reference_allocation a = take_out(state, at);",
     "const reference_allocation *at = &state->allocations[state->n_allocations - 1];\n"
     "    if (at) {\n        const reference_allocation a = take_out(state, at);", "0/slot/memory.free"),
    ("memory.fill begins at the start of the allocation", "memory.c", "reference_resolve(device, allocation, offset, bytes);\n"
     "    return to ? push_transfer(self, to, NULL,", "reference_resolve(device, allocation, 0, bytes);\n"
     "    return to ? push_transfer(self, to, NULL,", "0/slot/memory.fill"),
    ("stream.synchronize swallows a late error", "stream.c", "    reference_stream_wait(stream);\n    return report(stream);",
     "    reference_stream_wait(stream);\n    report(stream);\n    return TN_OK;", "1/late/error/stream.synchronize"),
    ("stream.query swallows a late error", "stream.c", "if (!status) status = report(s);\n    if (status) return status;",
     "if (!status) report(s);\n    if (status) return status;", "1/late/error/stream.query"),
    ("device.synchronize swallows a late error", "stream.c", "if (s->device == device) status = report(s);",
     "if (s->device == device) report(s);", "1/late/error/device.synchronize"),
    ("a late error has another status", "index.c", "return reference_fail(failure, TN_E_INDEX,",
     "return reference_fail(failure, TN_E_ARGUMENT,", "1/late/error/stream.synchronize"),
    ("host callbacks behind a late error are dropped", "stream.c", "c->task.always = 1;", "", "1/late/error/stream.synchronize"),
    ("events behind a late error are dropped", "event.c", "    t->task.always = 1;\n    t->task.release = release_recording;",
     "    t->task.release = release_recording;", "1/late/error/stream.synchronize"),
    ("the stream takes no work after a late error", "stream.c", "    s->error_status = 0;\n    pthread_mutex_unlock(&s->lock);\n"
     "    if (status)", "    s->error_status = 0;\n    if (status) s->drop_until = UINT64_MAX;\n    pthread_mutex_unlock(&s->lock);\n"
     "    if (status)", "1/late/error/device.synchronize"),
    ("a text is kept by its address", "work.c", "v.as.string = copy_bytes(w, v.as.string, (uint64_t)v.count + 1);", ";",
     "1/late/borrowed/scatter_reduce_"),
    ("sizes are kept by their address", "work.c", "    to->sizes = copy_bytes(w, from->sizes, from->rank * sizeof(int64_t));\n"
     "    to->strides", "    to->strides",
     "1/late/borrowed/scatter_reduce_"),
    ("the text of a pointwise call is kept by its address", "work.c",
     "v.as.string = copy_bytes(w, v.as.string, (uint64_t)v.count + 1);", ";", "1/late/borrowed/gelu"),
    ("nonzero does not wait for its stream", "sort.c",
     "int32_t status = reference_stream_interface.synchronize(self, call->device, call->stream);", "int32_t status = TN_OK;",
     "1/late/waits/nonzero"),
    ("isnan is always false", "real.c", "GIVES(OP_ISNAN, isnan(a));", "GIVES(OP_ISNAN, 0);", "1/pointwise/aten::isnan/float32/special"),
    ("isinf is always false", "real.c", "GIVES(OP_ISINF, isinf(a) != 0);", "GIVES(OP_ISINF, 0);", "1/pointwise/aten::isinf/float16/special"),
    ("signbit ignores the sign of zero", "real.c", "GIVES(OP_SIGNBIT, signbit(a) != 0);", "GIVES(OP_SIGNBIT, a < 0);",
     "1/pointwise/aten::signbit/float64/special"),
    ("abs keeps the sign of zero", "real.c", "*out = functions[i].run(x);",
     "*out = opcode == OP_ABS ? x < 0 ? -x : x : functions[i].run(x);", "1/pointwise/aten::abs/float32/special"),
    ("neg loses the sign of zero", "real.c", "GIVES(OP_NEG, -x);", "GIVES(OP_NEG, 0 - x);", "1/pointwise/aten::neg/float32/special"),
    ("mul loses the sign of zero", "real.c", "GIVES(OP_MUL, a * b);", "GIVES(OP_MUL, a * b + 0.0);",
     "1/pointwise/aten::mul.Tensor/bfloat16/special"),
    ("sqrt loses the sign of zero", "real.c", "*out = functions[i].run(x);",
     "*out = functions[i].run(x) + (opcode == OP_SQRT ? 0.0 : -0.0);", "1/pointwise/aten::sqrt/float32/special"),
    ("maximum ignores NaN", "real.c", "return isnan(a) || isnan(b) ? NAN : a > b", "return isnan(a) ? b : isnan(b) ? a : a > b",
     "1/pointwise/aten::maximum/float32/special"),
    ("where takes the other branch at NaN", "pointwise.c", "*out = number_is_zero(in[0]) ? in[2] : in[1];",
     "*out = number_is_zero(in[0]) || (in[1].domain == DOMAIN_REAL && in[1].re != in[1].re) ? in[2] : in[1];",
     "1/pointwise/aten::where.self/float32/special"),
    ("relu turns NaN into 0", "layers.c", "x < 0 ? 0 : x", "x > 0 ? x : 0", "1/pointwise/aten::relu/float32/special"),
    ("the log of a denormal number is NaN", "real.c", "*out = functions[i].run(x);",
     "*out = opcode == OP_LOG && x > 0 && x < 1e-38 ? NAN : functions[i].run(x);", "1/pointwise/aten::log/float32/denormal"),
    ("the high word of the random counter is lost", "random.c", "(uint32_t)(counter >> 32), 0, 0}", "0, 0, 0}",
     "1/random/prim::random/float32/uniform-far-contiguous"),
    ("the random counter does not carry", "random.c", "philox(d->seed, d->offset + i / (d->wide ? 2 : 4), words);",
     "philox(d->seed, (d->offset & ~0xffffffffull) + (uint32_t)(d->offset + i / (d->wide ? 2 : 4)), words);",
     "1/random/prim::random/float64/normal-past-32-bits-contiguous"),
    ("iota of integers is computed in float64", "basic.c", "number_add(start, number_multiply(number_int(i++), step))",
     "number_in(start.domain, number_real(number_in(DOMAIN_REAL, start).re + (double)i++ * number_in(DOMAIN_REAL, step).re))",
     "1/iota/prim::iota/int64/beyond-float64-contiguous"),
    ("relu writes its output before it reads its input", "layers.c",
     "double x = number_in(DOMAIN_REAL, nest_load(nest, 1, index)).re;\n        nest_store(nest, 0, index, number_real(x < 0",
     "nest_store(nest, 0, index, number_real(0));\n        double x = number_in(DOMAIN_REAL, nest_load(nest, 1, index)).re;\n"
     "        nest_store(nest, 0, index, number_real(x < 0",
     "1/pointwise/aten::relu/float32/in-place"),
    ("pointwise kernels clear their output before they read their inputs", "pointwise.c", "        memset(in, 0, sizeof(in));",
     "        memset(in, 0, sizeof(in));\n        nest_store(nest, 0, index, out);", "1/pointwise/aten::add.Tensor/float32/in-place"),
    ("relu writes an element past its output", "layers.c",
     "nest_store(nest, 0, index, number_real(x < 0 ? 0 : x));\n    } while (nest_next(nest->rank, nest->sizes, index));\n",
     "nest_store(nest, 0, index, number_real(x < 0 ? 0 : x));\n    } while (nest_next(nest->rank, nest->sizes, index));\n"
     "    uint32_t inner = 0;\n"
     "    for (uint32_t d = 0; d < nest->rank; d++) {\n"
     "        index[d] = nest->sizes[d] - 1;\n"
     "        if (nest->operands[0].strides[d] < nest->operands[0].strides[inner]) inner = d;\n"
     "    }\n"
     "    index[inner]++;\n"
     "    nest_store(nest, 0, index, number_real(77));\n", "1/pointwise/aten::relu/float32/in-place"),
    ("relu forgets the fourth dimension", "layers.c",
     "nest_store(nest, 0, index, number_real(x < 0 ? 0 : x));\n    } while (nest_next(nest->rank,",
     "nest_store(nest, 0, index, number_real(x < 0 ? 0 : x));\n    } while (nest_next(nest->rank < 3 ? nest->rank : 3,",
     "1/pointwise/aten::relu/float32/dimensions"),
    ("stream.wait_event does not wait for another device", "stream.c", "return status ? status : reference_event_wait(event, stream);",
     "return status || ((reference_stream *)stream)->device->index ? status : reference_event_wait(event, stream);",
     "0/unfinished/stream.wait_event-of-device"),
    ("memory.fill ends after 1 MiB", "memory.c", "push_transfer(self, to, NULL, bytes, value, stream)",
     "push_transfer(self, to, NULL, bytes < 1 << 20 ? bytes : 1 << 20, value, stream)", "0/slot/large"),
    ("copies on a device end after 8 MiB", "memory.c",
     "return copy(self, device, to, to_offset, device, from, from_offset, bytes, stream);",
     "return copy(self, device, to, to_offset, device, from, from_offset, bytes < 8 << 20 ? bytes : 8 << 20, stream);", "0/slot/large"),
    ("softmax ignores dim", "layers.c", "dim = tensor_dim(x, tn_value_as_int(call->args[1]));", "dim = tensor_dim(x, -1);",
     "1/options/aten::_softmax/dim=0"),
    ("log_softmax takes a negative dim for the last", "layers.c", "dim = tensor_dim(x, tn_value_as_int(call->args[1]));",
     "dim = tn_value_as_int(call->args[1]) < 0 ? tensor_dim(x, -1) : tensor_dim(x, tn_value_as_int(call->args[1]));",
     "1/options/aten::_log_softmax/dim=-2"),
    ("softmax does not subtract the maximum", "layers.c", "greatest = fmax(greatest, load(x, index));", "greatest = 0;",
     "1/large-inputs/aten::_softmax/float32"),
    ("log_softmax does not subtract the maximum", "layers.c", "greatest = fmax(greatest, load(x, index));", "greatest = 0;",
     "1/large-inputs/aten::_log_softmax/float32"),
    ("sort ignores dim", "sort.c", "tensor_dim(t, tn_value_as_int(call->args[first]));", "tensor_dim(t, -1);",
     "1/options/aten::sort.stable/dim=1"),
    ("the name of an operator is misspelt", "rows.c", 'UNARY("rsqrt",', 'UNARY("rsqtr",', "0/kernels/names"),
    ("gather ignores dim", "index.c", "int64_t dim = tensor_dim(t, tn_value_as_int(call->args[1]));\n    int64_t index[TN_MAX_RANK] "
     "= {0}, from", "int64_t dim = 0;\n    int64_t index[TN_MAX_RANK] = {0}, from", "1/options/aten::gather/dim=2"),
    ("the status of a lost device is good", "plugin.c", "    return reference_check_lost(device);", "    return TN_OK;",
     "0/lost/device.status"),
    ("stream.synchronize of a lost device succeeds", "stream.c", '    if (status) return reference_error(s->device->state, status, "%s", text);\n'
     "    return reference_check_lost(s->device);", '    if (status) return reference_error(s->device->state, status, "%s", text);\n'
     "    return TN_OK;", "0/lost/stream.synchronize"),
    ("a wait that meets the loss of its device never ends", "stream.c",
     "while (s->finished < target) pthread_cond_wait(&s->changed, &s->lock);",
     "while (s->finished < target || atomic_load(&s->device->lost)) pthread_cond_wait(&s->changed, &s->lock);", "0/lost/waiting"),
    ("event.query of a lost device succeeds", "event.c", "    int32_t status = reference_check_lost(device);\n    if (status) return "
     "status;\n    if (e->shared && e->shared->imported) return query_page", "    int32_t status = TN_OK;\n"
     "    if (e->shared && e->shared->imported) return query_page", "0/lost/event.query"),
    ("kernels of a lost device succeed", "stream.c", "    return reference_check_lost(s->device);\n}\n\nint32_t reference_stream_push(",
     "    return TN_OK;\n}\n\nint32_t reference_stream_push(", "0/lost/kernel"),
    ("callbacks of a lost device are dropped", "stream.c", "    c->callback(c->user);",
     "    if (!atomic_load(&stream->device->lost)) c->callback(c->user);", "0/lost/callbacks"),
    ("copies of a lost device run on", "stream.c", "    else if (!atomic_load(&s->device->lost))\n        task->run(s, task);",
     "    else {\n        int lost = atomic_exchange(&s->device->lost, 0);\n        task->run(s, task);\n"
     "        atomic_store(&s->device->lost, lost);\n    }", "0/lost/host-memory"),
    ("the loss of a device is that of all", "chaos.c", "    if (!atomic_load(&device->lost)) return TN_OK;",
     "    if (!atomic_load(&device->state->devices[0].lost)) return TN_OK;", "0/lost/second-device"),
    ("memory.fill runs at once", "memory.c", "return to ? push_transfer(self, to, NULL, bytes, value, stream) : TN_E_CONTRACT;",
     "if (to) memset(to, (int)value, bytes);\n    return to ? push_transfer(self, to, NULL, bytes, value, stream) : TN_E_CONTRACT;",
     "0/unfinished/memory.fill"),
    ("copies on a device run at once", "memory.c", "return source ? push_transfer(state, target, source, bytes, 0, stream) : TN_E_CONTRACT;",
     "if (source) memmove(target, source, bytes);\n"
     "    return source ? push_transfer(state, target, source, bytes, 0, stream) : TN_E_CONTRACT;", "0/unfinished/copy.device_to_device"),
    ("memory.alloc does not say what kind of memory it gives", "memory.c", "    out->kind = TN_MEMORY_DEVICE;\n", "", "0/slot/memory.alloc"),
    ("memory.alloc does not say how much it gives", "memory.c",
     "    out->address = (uint64_t)(uintptr_t)a.handle;\n    out->bytes = bytes;\n", "    out->address = (uint64_t)(uintptr_t)a.handle;\n",
     "0/slot/memory.alloc"),
    ("only the first late error of a process is reported", "stream.c",
     '    if (status) return reference_error(s->device->state, status, "%s", text);',
     '    static int told;\n    if (status && !told++) return reference_error(s->device->state, status, "%s", text);',
     "1/late/error/stream.synchronize"),
    ("products end after 1,000 factors", "matmul.c", "k < size; k++", "k < size && k < 1000; k++", "1/sizes/aten::mm/deep"),
    ("softmax ends after 1,024 elements", "layers.c", "int64_t size = tensor_size(x, dim), *at = &index[dim];",
     "int64_t size = tensor_size(x, dim) < 1024 ? tensor_size(x, dim) : 1024, *at = &index[dim];", "1/sizes/aten::_softmax/long"),
    ("all streams share the memory in which sort works", "sort.c",
     "    item *items = calloc((size_t)size, sizeof(*items));\n", "    static item shared[100000];\n    item *items = size > 100000 ? NULL : shared;\n"
     "#define free(x)\n", "1/streams/aten::sort.stable"),
    ("nonzero takes NaN for zero", "sort.c", "do count += !number_is_zero(tensor_load(t, index));",
     "do count += !number_is_zero(tensor_load(t, index)) && !number_is_nan(tensor_load(t, index));",
     "1/nonzero/aten::nonzero/float32/special"),
    ("products take NaN for zero", "matmul.c", "number_multiply(tensor_load(a, left), tensor_load(b, right))",
     "number_is_nan(tensor_load(a, left)) ? number_in(d, number_int(0)) : number_multiply(tensor_load(a, left), tensor_load(b, right))",
     "1/bmm/aten::mm/float32/special"),
    ("pointwise kernels end after 1,000,000 elements", "pointwise.c", "    } while (nest_next(nest->rank, nest->sizes, index));",
     "        if (index[0] >= 1000000) break;\n    } while (nest_next(nest->rank, nest->sizes, index));",
     "1/sizes/aten::add.Tensor/long"),
    ("products of int64 are computed in float64", "matmul.c", "    domain d = domain_of_both(domain_of(a->dtype), domain_of(b->dtype));",
     "    domain d = domain_of_both(DOMAIN_REAL, domain_of_both(domain_of(a->dtype), domain_of(b->dtype)));", "1/sizes/aten::mm/int64"),
    ("gather reads its positions as if they were row-major", "index.c",
     ", *positions = tensor_argument(call, 2);\n    const tn_tensor_desc *out = tensor_output(call, 0);\n    int64_t dim = tensor_dim(t",
     ";\n    tn_tensor_desc flat = *tensor_argument(call, 2), *positions = &flat;\n    int64_t strides[TN_MAX_RANK], n = 1;\n"
     "    for (uint32_t d = flat.rank; d-- > 0; n *= flat.sizes[d]) strides[d] = n;\n    flat.strides = strides;\n"
     "    const tn_tensor_desc *out = tensor_output(call, 0);\n    int64_t dim = tensor_dim(t", "1/gather/aten::gather/float32/transposed"),
    ("an error of a lost device has no text", "chaos.c", "    return reference_error(device->state, TN_E_DEVICE_LOST, REFERENCE_LOST);",
     "    return TN_E_DEVICE_LOST;", "0/lost/memory.alloc"),
    ("event.synchronize that meets the loss of its device succeeds", "event.c", "    release(r);\n    return reference_check_lost(device);",
     "    release(r);\n    return TN_OK;", "0/lost/waiting-for-event"),
    ("a position of -1 is the last one", "index.c", "if (position < 0 || position >= size)",
     "if (position == -1) position = size - 1;\n    if (position < 0 || position >= size)", "1/gather/aten::gather/out-of-range/minus-one"),
    ("numbers are cut off in bfloat16", "element.c", "&(uint16_t){(uint16_t)small_encode(s, single)}, 2)",
     "s->code == TN_CODE_BFLOAT && single == single ? (const char *)&single + 2 : "
     "(const char *)&(uint16_t){(uint16_t)small_encode(s, single)}, 2)", "1/copy/prim::copy/bfloat16/from-float32-sliced"),
    ("copies from the host are made at once", "memory.c",
     "    return to ? push_transfer(self, to, host, bytes, 0, stream) : TN_E_CONTRACT;",
     "    if (to && !pinned) return memcpy(to, host, bytes), TN_OK;\n"
     "    return to ? push_transfer(self, to, host, bytes, 0, stream) : TN_E_CONTRACT;", "0/unfinished/copy.host_to_device"),
    ("copies between devices are made at once", "memory.c",
     "    return copy(self, to_device, to, to_offset, from_device, from, from_offset, bytes, stream);\n}\n\nstatic int32_t device_to_device",
     "    char *target = reference_resolve(to_device, to, to_offset, bytes);\n"
     "    if (target) return memcpy(target, reference_resolve(from_device, from, from_offset, bytes), bytes), TN_OK;\n"
     "    return copy(self, to_device, to, to_offset, from_device, from, from_offset, bytes, stream);\n}\n\nstatic int32_t device_to_device",
     "0/unfinished/copy.peer"),
    ("device.synchronize waits for one stream", "stream.c", "if (s->device == device) reference_stream_wait(s);",
     "if (s->device == device && !s->next) reference_stream_wait(s);", "0/unfinished/device.synchronize-of-other-streams"),
    ("a record of an event ends the waits for the one before", "event.c", "    release(before);\n    return TN_OK;",
     "    if (before) run_record(NULL, &(event_task){.recording = before}.task);\n    release(before);\n    return TN_OK;",
     "0/unfinished/stream.wait_event-recorded-again"),
    ("an event takes the late error of its stream", "event.c", "    recording *r = ((event_task *)task)->recording;\n    struct timespec now;",
     "    recording *r = ((event_task *)task)->recording;\n    struct timespec now;\n    int32_t done;\n"
     "    reference_stream_interface.query(NULL, NULL, stream, &done);", "1/late/error/event.query"),
    ("nonzero swallows the late error of its stream", "sort.c",
     "int32_t status = reference_stream_interface.synchronize(self, call->device, call->stream);",
     "int32_t status = TN_OK;\n    reference_stream_interface.synchronize(self, call->device, call->stream);", "1/late/error/nonzero"),
    ("events of a lost device are never done", "event.c", "    recording *r = ((event_task *)task)->recording;\n    struct timespec now;",
     "    recording *r = ((event_task *)task)->recording;\n    struct timespec now;\n"
     "    if (atomic_load(&reference_stream_device(stream)->lost)) return;", "0/lost/second-device-waits"),
    ("where of int64 goes through float64", "pointwise.c", "*out = number_is_zero(in[0]) ? in[2] : in[1];",
     "*out = number_in(DOMAIN_REAL, number_is_zero(in[0]) ? in[2] : in[1]);", "1/pointwise/aten::where.self/int64/wide"),
    ("products of bfloat16 are added in bfloat16", "matmul.c",
     "        sum = number_add(sum, number_multiply(tensor_load(a, left), tensor_load(b, right)));",
     "        sum = number_add(sum, number_multiply(tensor_load(a, left), tensor_load(b, right)));\n"
     "        if (a->dtype == TN_BFLOAT16) {\n            float s = (float)sum.re;\n            uint32_t bits;\n"
     "            __builtin_memcpy(&bits, &s, 4);\n            bits = (bits + 0x8000) & 0xffff0000;\n            __builtin_memcpy(&s, &bits, 4);\n"
     "            sum.re = s;\n        }", "1/sizes/aten::mm/bfloat16"),
    ("softmax of a row that is wholly masked is 0", "layers.c", "exp(shifted) / sum", "isnan(sum) ? 0 : exp(shifted) / sum",
     "1/sizes/aten::_softmax/masked"),
    ("copies of a 0-dim tensor do nothing", "basic.c", "    if (tensor_numel(out) == 0) return TN_OK;\n    do {\n        broadcast_index(",
     "    if (tensor_numel(out) == 0 || out->rank == 0) return TN_OK;\n    do {\n        broadcast_index(", "1/sizes/prim::copy/0-dim"),
    ("sums of 4,096 factors are added in float16", "matmul.c",
     "        sum = number_add(sum, number_multiply(tensor_load(a, left), tensor_load(b, right)));",
     "        sum = number_add(sum, number_multiply(tensor_load(a, left), tensor_load(b, right)));\n"
     "        if (a->dtype == TN_FLOAT16 && k % 4096 == 4095) sum.re = (double)(_Float16)sum.re;", "1/sizes/aten::mm/float16-parts"),
    ("sums of 4,096 elements are added in float16", "reduce.c", "            count += 1;\n        } while (nest_next(reduced, ",
     "            count += 1;\n            if (d == DOMAIN_REAL && nest->operands[0].dtype == TN_FLOAT16 && (int64_t)count % 4096 == 0)\n"
     "                total.re = (double)(_Float16)total.re;\n        } while (nest_next(reduced, ", "1/sizes/aten::sum/float16-parts"),
    ("elements of float32 are added one after the other in float32", "reduce.c", "            count += 1;\n        } while (nest_next(reduced, ",
     "            count += 1;\n            if (nest->operands[0].dtype == TN_FLOAT32) total.re = (double)(float)total.re;\n"
     "        } while (nest_next(reduced, ", "1/sizes/aten::sum/rounding"),
    ("factors of float32 are rounded to 10 bits", "matmul.c", "number_multiply(tensor_load(a, left), tensor_load(b, right))",
     "({ number l = tensor_load(a, left); if (a->dtype == TN_FLOAT32) { float f = (float)l.re; uint32_t u; __builtin_memcpy(&u, &f, 4); "
     "u = (u + 0x1000) & 0xffffe000; __builtin_memcpy(&f, &u, 4); l.re = f; } number_multiply(l, tensor_load(b, right)); })",
     "1/sizes/aten::mm/fine"),
    ("products of float64 are added in float32", "matmul.c",
     "        sum = number_add(sum, number_multiply(tensor_load(a, left), tensor_load(b, right)));",
     "        sum = number_add(sum, number_multiply(tensor_load(a, left), tensor_load(b, right)));\n"
     "        if (a->dtype == TN_FLOAT64) sum.re = (double)(float)sum.re;", "1/sizes/aten::mm/float64"),
    ("factors of float64 are taken as float32", "matmul.c", "number_multiply(tensor_load(a, left), tensor_load(b, right))",
     "({ number l = tensor_load(a, left), r = tensor_load(b, right); if (a->dtype == TN_FLOAT64) l.re = (float)l.re, r.re = (float)r.re; "
     "number p = number_multiply(l, r); if (a->dtype == TN_FLOAT64) p.re = (float)p.re; p; })", "1/bmm/aten::mm/float64/large"),
    ("cumsum of float64 adds in float32", "scan.c",
     "        total = opcode == SCAN_SUM ? number_add(total, next) : number_multiply(total, next);",
     "        total = opcode == SCAN_SUM ? number_add(total, next) : number_multiply(total, next);\n"
     "        if (opcode == SCAN_SUM && out->dtype == TN_FLOAT64) total.re = (double)(float)total.re;", "1/scan/aten::cumsum/float64/large"),
    ("pointwise results of float64 are rounded to float32", "pointwise.c", "        nest_store(nest, 0, index, out);",
     "        if (d == DOMAIN_REAL && dtype == TN_FLOAT64) out.re = (double)(float)out.re;\n        nest_store(nest, 0, index, out);",
     "1/pointwise/aten::sqrt/float64/contiguous"),
    ("slots of a lost device answer after four seconds", "chaos.c", "    if (!atomic_load(&device->lost)) return TN_OK;",
     "    if (!atomic_load(&device->lost)) return TN_OK;\n    sleep(4);", "0/lost/memory.alloc"),
    ("a wait that meets the loss of its device ends fourteen seconds later", "stream.c",
     "    while (s->finished < target) pthread_cond_wait(&s->changed, &s->lock);\n    pthread_mutex_unlock(&s->lock);\n}\n\n/* Reports",
     "    while (s->finished < target) pthread_cond_wait(&s->changed, &s->lock);\n    pthread_mutex_unlock(&s->lock);\n"
     "    static int has_slept;\n    if (atomic_load(&s->device->lost) && !has_slept++) sleep(14);\n}\n\n/* Reports", "0/lost/waiting"),
    ("a copy under way goes on after the loss of its device", "memory.c",
     "    pthread_rwlock_rdlock(&device->transfers);\n    if (!atomic_load(&device->lost)) {\n        if (t->from)\n"
     "            memmove(t->to, t->from, t->bytes);",
     "    if (t->from && t->bytes > 1 << 25) {\n        memmove(t->to, t->from, 4096);\n        usleep(100000);\n"
     "        memmove(t->to + 4096, t->from + 4096, t->bytes - 4096);\n        return;\n    }\n"
     "    pthread_rwlock_rdlock(&device->transfers);\n    if (!atomic_load(&device->lost)) {\n        if (t->from)\n"
     "            memmove(t->to, t->from, t->bytes);", "0/lost/copy-under-way"),
    ("launches of a graph do not wait for each other", "graph.c", "    int32_t status = reference_event_wait(e->last, stream);",
     "    int32_t status = TN_OK;", "4/graph/launches"),
    ("a launch swallows its late error", "graph.c", "        if (!run_task(stream, reference_stream_device(stream), next)) return;",
     "        int32_t is_done;\n        if (!run_task(stream, reference_stream_device(stream), next)) {\n"
     "            reference_stream_interface.query(NULL, NULL, stream, &is_done);\n            return;\n        }", "4/graph/late-error"),
    ("each launch leaves memory", "graph.c", "    launch *l = reference_task_create(sizeof(*l), run_launch);",
     "    launch *l = reference_task_create(sizeof(*l), run_launch);\n    *(volatile char *)malloc(32) = 0;", "4/leaks/replay"),
    ("a launch keeps its graph for ever", "graph.c", "    release_program(((launch *)task)->program);", "    (void)task;",
     "4/leaks/graph"),
    ("elements that are read are counted in 16 bits", "pointwise.c",
     "            in[i] = number_in(d, nest_load(nest, nest->n_outputs + i, index));",
     "        {\n            int64_t low[TN_MAX_RANK];\n            memcpy(low, index, sizeof(low));\n            low[0] &= 0xffff;\n"
     "            in[i] = number_in(d, nest_load(nest, nest->n_outputs + i, low));\n        }", "1/sizes/aten::exp/long"),
    ("factors are counted in 16 bits", "matmul.c", "        left[rank - 1] = right[rank - 2] = k;",
     "        left[rank - 1] = right[rank - 2] = (uint16_t)k;", "1/sizes/aten::mm/deeper"),
    ("one element behind a multiple of 4,096 is left out", "pointwise.c", "    } while (nest_next(nest->rank, nest->sizes, index));",
     "    } while (nest_next(nest->rank, nest->sizes, index) && !(nest->rank == 1 && nest->sizes[0] % 4096 == 1 && index[0] == nest->sizes[0] - 1));",
     "1/sizes/aten::add.Tensor/tail"),
    ("alpha is rounded to 16 bits", "pointwise.c", "p.alpha = call->n_args > 2 ? number_of_value(call->args[2]) : p.alpha;",
     "p.alpha = call->n_args > 2 ? number_of_value(call->args[2]) : p.alpha;\n"
     "        if (p.alpha.domain == DOMAIN_REAL) p.alpha.re = (double)(_Float16)p.alpha.re;", "1/sizes/aten::add.Tensor/fine-alpha"),
    ("softmax adds in float16", "layers.c", "sum += exp(load(x, index) - greatest);",
     "{\n        sum += exp(load(x, index) - greatest);\n        if (x->dtype == TN_FLOAT16) sum = (double)(_Float16)sum;\n    }",
     "1/sizes/aten::_softmax/float16"),
    ("group_norm adds in float16", "layers.c", "        sum += load(x, index);\n        n++;\n    } while (next_of_group(x, channels, index));",
     "        sum += load(x, index);\n        if (x->dtype == TN_FLOAT16) sum = (double)(_Float16)sum;\n        n++;\n"
     "    } while (next_of_group(x, channels, index));", "1/sizes/aten::native_group_norm/float16"),
    ("the variance of layer_norm is a difference of squares in float32", "layers.c",
     "    do squares += pow(load(x, index) - sum / n, 2);\n    while (tensor_next(inner, ",
     "    float total = 0;\n    do total += (float)pow(load(x, index), 2);\n    while (tensor_next(inner, x->sizes + outer, tail));\n"
     "    if (x->dtype == TN_FLOAT32) squares = n * fmax(0, (float)(total / n) - (float)(sum / n * sum / n));\n"
     "    do squares += x->dtype == TN_FLOAT32 ? 0 : pow(load(x, index) - sum / n, 2);\n    while (tensor_next(inner, ",
     "1/sizes/aten::native_layer_norm/offset"),
    ("calls that are queued share the memory of their operands", "work.c",
     "    tn_operand *operands =\n        w->status ? NULL : reference_task_memory(&w->task, from->n_operands * sizeof(*operands));",
     "    static tn_operand shared[16];\n    tn_operand *operands = w->status ? NULL : shared;", "1/streams/aten::add.Tensor"),
    ("each task leaves memory", "stream.c", "        free(block);\n    }\n    free(task);", "        free(block);\n    }", "0/leaks/work"),
    ("each event leaves memory", "event.c", "    pthread_mutex_destroy(&e->lock);\n    free(e);\n}", "    pthread_mutex_destroy(&e->lock);\n}",
     "0/leaks/event"),
    ("each stream leaves memory", "stream.c", "    pthread_mutex_destroy(&s->lock);\n    free(s);", "    pthread_mutex_destroy(&s->lock);",
     "0/leaks/stream"),
    ("sort leaves the memory in which it works", "sort.c", "    free(items);", "", "1/leaks/aten::sort.stable"),
    ("shutdown leaves the table of allocations", "memory.c", "    free(state->allocations);\n}", "    free(malloc(8));\n}", "0/leaks/plugin"),
    ("copies of a few bytes on a device are made at once", "memory.c",
     "    return copy(self, device, to, to_offset, device, from, from_offset, bytes, stream);",
     "    if (bytes <= 16) {\n        char *target = reference_resolve(device, to, to_offset, bytes);\n"
     "        if (target) return memcpy(target, reference_resolve(device, from, from_offset, bytes), bytes), TN_OK;\n    }\n"
     "    return copy(self, device, to, to_offset, device, from, from_offset, bytes, stream);", "0/unfinished/copy.device_to_device-small"),
    ("copies of a few bytes from the host are made at once", "memory.c",
     "    return to ? push_transfer(self, to, host, bytes, 0, stream) : TN_E_CONTRACT;",
     "    if (to && bytes <= 16) return memcpy(to, host, bytes), TN_OK;\n"
     "    return to ? push_transfer(self, to, host, bytes, 0, stream) : TN_E_CONTRACT;", "0/unfinished/copy.host_to_device-small"),
    ("copies of a few bytes to the host are made at once", "memory.c",
     "    return from ? push_transfer(self, host, from, bytes, 0, stream) : TN_E_CONTRACT;",
     "    if (from && bytes <= 16) return memcpy(host, from, bytes), TN_OK;\n"
     "    return from ? push_transfer(self, host, from, bytes, 0, stream) : TN_E_CONTRACT;", "0/unfinished/copy.device_to_host-small"),
    ("copies of many bytes to the host are made at once", "memory.c",
     "    return from ? push_transfer(self, host, from, bytes, 0, stream) : TN_E_CONTRACT;",
     "    if (from && bytes > 1 << 20) return memcpy(host, from, bytes), TN_OK;\n"
     "    return from ? push_transfer(self, host, from, bytes, 0, stream) : TN_E_CONTRACT;", "0/unfinished/copy.device_to_host"),
    ("offsets of operands are of 32 bits", "work.c", "        to->host = resolve(w, from->allocation, from->byte_offset,\n                           extent(nest->rank",
     "        to->host = resolve(w, from->allocation, (uint32_t)from->byte_offset,\n                           extent(nest->rank",
     "1/far/aten::add.Tensor/float32"),
    ("memory.alloc says that it gave twice as much", "memory.c", "    out->address = (uint64_t)(uintptr_t)a.handle;\n    out->bytes = bytes;\n",
     "    out->address = (uint64_t)(uintptr_t)a.handle;\n    out->bytes = 2 * bytes;\n", "0/slot/memory.alloc"),
    ("the facts list peers that do not exist", "plugin.c", "(1ull << state->n_devices) - 1 : 0}", "~0ull : 0}", "0/device/facts/0"),
    ("strides of nests are of 32 bits", "element.c",
     "    for (uint32_t d = 0; d < nest->rank; d++) bytes += index[d] * o->strides[d];",
     "    for (uint32_t d = 0; d < nest->rank; d++) bytes += index[d] * (uint32_t)o->strides[d];", "1/far/aten::exp/float32"),
    ("elements are counted in 32 bits", "element.c",
     "    for (uint32_t d = 0; d < t->rank; d++) elements += index[d] * t->strides[d];",
     "    for (uint32_t d = 0; d < t->rank; d++) elements += index[d] * (uint32_t)t->strides[d];", "1/far/prim::copy/uint8"),
    ("copies on a device read their source at once", "memory.c",
     "    return copy(self, device, to, to_offset, device, from, from_offset, bytes, stream);",
     "    char *target = reference_resolve(device, to, to_offset, bytes), *source = reference_resolve(device, from, from_offset, bytes);\n"
     "    return push_transfer(self, target, memcpy(malloc(bytes), source, bytes), bytes, 0, stream);",
     "0/unfinished/copy.device_to_device"),
    ("copies between devices read their source at once", "memory.c",
     "    return copy(self, to_device, to, to_offset, from_device, from, from_offset, bytes, stream);\n}\n\nstatic int32_t device_to_device",
     "    char *target = reference_resolve(to_device, to, to_offset, bytes);\n"
     "    const char *source = reference_resolve(from_device, from, from_offset, bytes);\n"
     "    return push_transfer(self, target, memcpy(malloc(bytes), source, bytes), bytes, 0, stream);\n}\n\nstatic int32_t device_to_device",
     "0/unfinished/copy.peer"),
    ("copies between devices repeat their first 16 MiB", "memory.c",
     "    return copy(self, to_device, to, to_offset, from_device, from, from_offset, bytes, stream);\n}\n\nstatic int32_t device_to_device",
     "    for (; bytes > 1 << 24 && !status; to_offset += 1 << 24, bytes -= 1 << 24)\n"
     "        status = copy(self, to_device, to, to_offset, from_device, from, from_offset, 1 << 24, stream);\n"
     "    return copy(self, to_device, to, to_offset, from_device, from, from_offset, bytes, stream);\n}\n\nstatic int32_t device_to_device",
     "0/slot/large-peer"),
    ("mapped memory begins at the start of the allocation", "memory.c", "    *out_host = data;", "    *out_host = data - offset;",
     "0/slot/memory.map"),
    ("memory.resize clears what it keeps", "memory.c", "ftruncate(a->file, (off_t)bytes) != 0",
     "(ftruncate(a->file, 0), ftruncate(a->file, (off_t)bytes)) != 0", "0/slot/memory.resize"),
    ("destroy of a wrapped stream ends its queue", "stream.c", "    if (--s->owners) {",
     "    if (--s->owners) {\n        reference_stream_fail(s, TN_E_STATE, \"reference: the queue has ended\");", "0/slot/stream.wrap"),
    ("an event that was done stays done when it is recorded again", "event.c", "    before = e->last;\n    e->last = r;",
     "    before = e->last;\n    if (before && before->reached) r->reached = 1;\n    e->last = r;", "0/unfinished/event.query"),
    ("an event that is destroyed ends the waits for it", "event.c", "    release(e->last);\n    release_page(e->shared);",
     "    if (e->last) run_record(NULL, &(event_task){.recording = e->last}.task);\n    release(e->last);\n    release_page(e->shared);",
     "0/unfinished/stream.wait_event-destroyed"),
    ("device.synchronize reports errors of one stream", "stream.c", "if (s->device == device) status = report(s);",
     "if (s->device == device && !s->next) status = report(s);", "1/late/error/device.synchronize-of-other-stream"),
    ("a copy to the host swallows the late error of its stream", "memory.c",
     "    return from ? push_transfer(self, host, from, bytes, 0, stream) : TN_E_CONTRACT;",
     "    if (!pinned) reference_stream_interface.synchronize(self, device, stream);\n"
     "    return from ? push_transfer(self, host, from, bytes, 0, stream) : TN_E_CONTRACT;", "1/late/error/copy.device_to_host"),
    ("a copy from the host swallows the late error of its stream", "memory.c",
     "    return to ? push_transfer(self, to, host, bytes, 0, stream) : TN_E_CONTRACT;",
     "    if (!pinned) reference_stream_interface.synchronize(self, device, stream);\n"
     "    return to ? push_transfer(self, to, host, bytes, 0, stream) : TN_E_CONTRACT;", "1/late/error/copy.host_to_device"),
    ("memory.free waits for the device and swallows its late error", "memory.c", "    const reference_allocation *at = find(state, memory->allocation);\n"
     "    if (at) {\n        const reference_allocation a = take_out(state, at);",
     "    const reference_allocation *at = find(state, memory->allocation);\n    reference_streams_synchronize(device);\n"
     "    if (at) {\n        const reference_allocation a = take_out(state, at);", "1/late/error/memory.free"),
    ("results of int32 go through float32", "pointwise.c", "        nest_store(nest, 0, index, out);",
     "        if (d == DOMAIN_SIGNED && dtype == TN_INT32) out.i = (int64_t)(float)out.i;\n        nest_store(nest, 0, index, out);",
     "1/pointwise/aten::sub.Tensor/int32/wide"),
    ("results of int8 do not wrap", "pointwise.c", "        nest_store(nest, 0, index, out);",
     "        if (d == DOMAIN_SIGNED && dtype == TN_INT8) out.i = out.i > 127 ? 127 : out.i < -128 ? -128 : out.i;\n"
     "        nest_store(nest, 0, index, out);", "1/pointwise/aten::mul.Tensor/int8/wide"),
    ("remainder of int64 goes through float64", "integer.c", "        divide(d, a, b, floored, &quotient, &rest);",
     "        divide(d, a, b, floored, &quotient, &rest);\n"
     "        if (floored) rest = (int64_t)((double)a - __builtin_floor((double)a / (double)b) * (double)b);",
     "1/pointwise/aten::remainder.Tensor/int64/wide"),
    ("minimum of int64 goes through float64", "integer.c", "GIVES(OP_MINIMUM, order < 0 ? a : b);",
     "GIVES(OP_MINIMUM, (int64_t)(double)(order < 0 ? a : b));", "1/pointwise/aten::minimum/int64/wide"),
    ("the sign of int64 is that of its low 32 bits", "integer.c", "GIVES(OP_SGN, negative ? -1 : a != 0);",
     "GIVES(OP_SGN, (int32_t)a < 0 ? -1 : (int32_t)a != 0);", "1/pointwise/aten::sgn/int64/wide"),
    ("cumsum of int64 adds in float64", "scan.c", "        total = opcode == SCAN_SUM ? number_add(total, next) : number_multiply(total, next);",
     "        total = opcode == SCAN_SUM ? number_add(total, next) : number_multiply(total, next);\n"
     "        if (total.domain == DOMAIN_SIGNED) total.i = (int64_t)(double)total.i;", "1/scan/aten::cumsum/int64/wide"),
    ("the greatest int32 goes through float32", "reduce.c", "        nest_store(nest, 0, index, total);",
     "        if (opcode == REDUCE_AMAX && total.domain == DOMAIN_SIGNED) total.i = (int64_t)(float)total.i;\n"
     "        nest_store(nest, 0, index, total);", "1/reduce/aten::amax/int32/wide"),
    ("products of int32 are computed in float32", "matmul.c",
     "        sum = number_add(sum, number_multiply(tensor_load(a, left), tensor_load(b, right)));",
     "        sum = number_add(sum, number_multiply(tensor_load(a, left), tensor_load(b, right)));\n"
     "        if (a->dtype == TN_INT32) sum.i = (int64_t)(float)sum.i;", "1/sizes/aten::mm/int32"),
    ("casts of a 0-dim tensor do nothing", "basic.c", "    if (tensor_numel(out) == 0) return TN_OK;\n    do {\n        broadcast_index(",
     "    if (tensor_numel(out) == 0 || (out->rank == 0 && out->dtype != source->dtype)) return TN_OK;\n    do {\n        broadcast_index(",
     "1/copy/prim::copy/float32/from-int64-0-dim"),
    ("copies from columns to rows forget tiles beyond the first row of them", "basic.c", "        tensor_move(out, index, source, from);",
     "        if (out->rank != 2 || source->strides[0] != 1 || index[0] < 64 || index[1] < 64) tensor_move(out, index, source, from);",
     "1/copy/prim::copy/float32/large"),
    ("contiguous operands are read from a multiple of 16 bytes on", "element.c", "    return o->host + bytes;",
     "    char *start = o->host;\n    if (nest->rank == 1 && o->strides[0] == tn_dtype_bytes(o->dtype)) start = (char *)((uintptr_t)start & ~(uintptr_t)15);\n"
     "    return start + bytes;", "1/pointwise/aten::add.Tensor/float32/offset"),
    ("tensors are read from a multiple of 16 bytes on", "element.c", "    return (char *)t->host + elements * tn_dtype_bytes(t->dtype);",
     "    return (char *)((uintptr_t)t->host & ~(uintptr_t)15) + elements * tn_dtype_bytes(t->dtype);", "1/bmm/aten::mm/float32/offset"),
    ("rows of a product are counted in 16 bits", "matmul.c", "    left[rank - 2] = index[rank - 2];",
     "    left[rank - 2] = (uint16_t)index[rank - 2];", "1/sizes/aten::mm/rows"),
    ("columns of a product are counted in 16 bits", "matmul.c", "    right[rank - 1] = index[rank - 1];",
     "    right[rank - 1] = (uint16_t)index[rank - 1];", "1/sizes/aten::mm/columns"),
    ("products of a batch are counted in 16 bits", "matmul.c", "left[0] = right[0] = index[0];", "left[0] = right[0] = (uint16_t)index[0];",
     "1/sizes/aten::bmm/groups"),
    ("sums end after 65,535 rows", "reduce.c", "    } while (nest_next(kept, nest->sizes, index));",
     "    } while (nest_next(kept, nest->sizes, index) && index[0] < 65535);", "1/sizes/aten::sum.dim_IntList/rows"),
    ("cumsum ends after 65,535 rows", "scan.c", "    } while (tensor_next(t->rank, sizes, index));",
     "    } while (tensor_next(t->rank, sizes, index) && index[0] < 65535);", "1/sizes/aten::cumsum/rows"),
    ("pointwise kernels of two dimensions end after 65,535 rows", "pointwise.c", "    } while (nest_next(nest->rank, nest->sizes, index));",
     "    } while (nest_next(nest->rank, nest->sizes, index) && (nest->rank != 2 || (index[0] < 65535 && index[1] < 65535)));",
     "1/sizes/aten::add.Tensor/rows"),
    ("softmax ends after 65,535 rows", "layers.c",
     "    do softmax_line(call, index, dim, is_log);\n    while (tensor_next(x->rank, sizes, index));",
     "    do softmax_line(call, index, dim, is_log);\n    while (tensor_next(x->rank, sizes, index) && index[0] < 65535);",
     "1/sizes/aten::_softmax/rows"),
    ("softmax of a 0-dim tensor is 0", "layers.c", "exp(shifted) / sum", "x->rank ? exp(shifted) / sum : 0", "1/sizes/aten::_softmax/0-dim"),
    ("log_softmax of a row that is wholly masked is -infinity", "layers.c", "is_log ? shifted - log(sum)",
     "is_log ? isnan(sum) ? -INFINITY : shifted - log(sum)", "1/sizes/aten::_log_softmax/masked"),
    ("linear adds in float16", "layers.c", "sum += load(x, at) * load(weight, from);",
     "{\n            sum += load(x, at) * load(weight, from);\n            if (x->dtype == TN_FLOAT16) sum = (double)(_Float16)sum;\n        }",
     "1/sizes/aten::linear/float16"),
    ("linear adds sums of 4,096 factors in float16", "layers.c", "sum += load(x, at) * load(weight, from);",
     "{\n            sum += load(x, at) * load(weight, from);\n"
     "            if (x->dtype == TN_FLOAT16 && k % 4096 == 4095) sum = (double)(_Float16)sum;\n        }",
     "1/sizes/aten::linear/float16-parts"),
    ("factors of linear are rounded to 16 bits", "layers.c", "sum += load(x, at) * load(weight, from);",
     "sum += x->dtype == TN_FLOAT32 ? (double)((_Float16)load(x, at) * (float)(_Float16)load(weight, from)) : load(x, at) * load(weight, from);",
     "1/sizes/aten::linear/fine"),
    ("convolution adds in float16", "layers.c", "if (inside) sum += load(x, at) * load(weight, tap);",
     "if (inside) sum += load(x, at) * load(weight, tap);\n        if (x->dtype == TN_FLOAT16) sum = (double)(_Float16)sum;",
     "1/sizes/aten::convolution/float16"),
    ("convolution adds sums of 1,024 channels in float16", "layers.c", "if (inside) sum += load(x, at) * load(weight, tap);",
     "if (inside) sum += load(x, at) * load(weight, tap);\n"
     "        if (x->dtype == TN_FLOAT16 && tap[1] % 1024 == 1023) sum = (double)(_Float16)sum;",
     "1/sizes/aten::convolution/float16-parts"),
    ("convolution adds float64 in float32", "layers.c", "if (inside) sum += load(x, at) * load(weight, tap);",
     "if (inside) sum += load(x, at) * load(weight, tap);\n        if (x->dtype == TN_FLOAT64) sum = (double)(float)sum;",
     "1/sizes/aten::convolution/float64"),
    ("gradients of a convolution's weight are added in float16", "layers.c", "if (inside) sum += load(grad, index) * (tap ? load(x, at) : 1);",
     "if (inside) sum += load(grad, index) * (tap ? load(x, at) : 1);\n        if (x->dtype == TN_FLOAT16) sum = (double)(_Float16)sum;",
     "1/sizes/aten::convolution_backward/float16"),
    ("gradients of a convolution's weight are sums of rows in float16", "layers.c", "if (inside) sum += load(grad, index) * (tap ? load(x, at) : 1);",
     "if (inside) sum += load(grad, index) * (tap ? load(x, at) : 1);\n"
     "        if (x->dtype == TN_FLOAT16 && index[3] == grad->sizes[3] - 1) sum = (double)(_Float16)sum;",
     "1/sizes/aten::convolution_backward/float16-parts"),
    ("pictures of a convolution are counted in 16 bits", "layers.c", "at[TN_MAX_RANK] = {index[0]},", "at[TN_MAX_RANK] = {(uint16_t)index[0]},",
     "1/sizes/aten::convolution/pictures"),
    ("attention ends after 64 keys", "layers.c", "    int64_t keys = value->sizes[2], from[4]",
     "    int64_t keys = value->sizes[2] < 64 ? value->sizes[2] : 64, from[4]",
     "1/sizes/aten::_scaled_dot_product_flash_attention_for_cpu/long"),
    ("causal attention begins one key late", "layers.c", "k > index[2]) return -INFINITY;", "k >= index[2] && k) return -INFINITY;",
     "1/sizes/aten::_scaled_dot_product_flash_attention_for_cpu/causal"),
    ("attention adds in float16", "layers.c", "total += weights[from[2]] / sum * load(value, from);",
     "{\n            total += weights[from[2]] / sum * load(value, from);\n"
     "            if (value->dtype == TN_FLOAT16) total = (double)(_Float16)total;\n        }",
     "1/sizes/aten::_scaled_dot_product_flash_attention_for_cpu/float16"),
    ("attention ends after 65,535 heads", "layers.c", "    do attend(call, index, weights);",
     "    do\n        if (index[0] * query->sizes[1] + index[1] < 65535) attend(call, index, weights);",
     "1/sizes/aten::_scaled_dot_product_flash_attention_for_cpu/groups"),
    ("cumsum of float16 adds in float16", "scan.c", "        tensor_store(out, index, total);",
     "        if (opcode == SCAN_SUM && out->dtype == TN_FLOAT16) total.re = (double)(_Float16)total.re;\n"
     "        tensor_store(out, index, total);", "1/sizes/aten::cumsum/float16"),
    ("layer_norm adds in float16", "layers.c", "        sum += load(x, index);\n        n++;\n    } while (tensor_next(inner, ",
     "        sum += load(x, index);\n        if (x->dtype == TN_FLOAT16) sum = (double)(_Float16)sum;\n        n++;\n"
     "    } while (tensor_next(inner, ",
     "1/sizes/aten::native_layer_norm/float16"),
    ("memory.trim takes memory that is in use", "memory.c", "    (void)self;\n    return reference_check_lost(device);",
     "    reference_state *state = self;\n    for (size_t i = 0; i < state->n_allocations; i++)\n"
     "        if (state->allocations[i].device == device) memset(state->allocations[i].data, 0, 1);\n"
     "    return reference_check_lost(device);", "0/slot/memory.trim"),
    ("autocast.classify gives a number that is no class", "plugin.c", "    return -1;\n", "    return *op == 'a' ? -1 : 4;\n",
     "0/slot/autocast.classify"),
    ("autocast.classify gives other classes later", "plugin.c", "    return -1;\n",
     "    static int32_t calls;\n    return calls++ ? TN_AUTOCAST_LOW : -1;\n", "0/slot/autocast.classify"),
]


# What a right plugin may do: (freedom, file, text, replacement, the case that must pass)
FREEDOMS = [
    ("a product in 16 parts, each of every 16th factor", "reduce.c", """\
        number total = first_value(opcode, d, nest_load(nest, 1, index));
        double count = 0;
        do {
            total = combine(opcode, total, load_for(opcode, nest, index));
            count += 1;
        } while (nest_next(reduced, nest->sizes + kept, index + kept));
""", """\
        number total = first_value(opcode, d, nest_load(nest, 1, index)), part[16];
        double count = 0;
        for (int i = 0; i < 16; i++) part[i] = total;
        do {
            number *one = &part[(int64_t)count % 16];
            *one = combine(opcode, *one, load_for(opcode, nest, index));
            count += 1;
        } while (nest_next(reduced, nest->sizes + kept, index + kept));
        for (int i = 0; i < 16; i++) total = combine(opcode, total, part[i]);
""", "1/reduce/aten::prod/float32/large"),
]


class Plugin:
    """The reference plugin of a build folder, with the kernels of layers.c, made again with one file changed."""

    def __init__(self, build, folder):
        self.build = build
        self.commands = {}
        for entry in json.loads((build / "compile_commands.json").read_text()):
            path = (Path(entry["directory"]) / entry["file"]).resolve()
            if path.parent == ROOT / PLUGIN and f"{PLUGIN}/libtenon_reference" in entry["output"]:
                self.commands[path.name] = shlex.split(entry["command"])
        listed = subprocess.run(["ninja", "-C", build, "-t", "commands", f"{PLUGIN}/libtenon_reference.so"], check=True,
                                capture_output=True, text=True).stdout
        self.link = shlex.split([line for line in listed.splitlines() if "-o plugins/reference/libtenon_reference.so" in line][-1])
        self.base = {"rows.c": self.compile(folder, "rows.c", self.source("rows.c").replace(*KERNELS)),
                     "layers.c": self.compile(folder, "layers.c", self.source("layers.c"))}

    def is_plain(self):
        return "-fsanitize" not in " ".join(self.link)

    @staticmethod
    def path_of(file):
        return ROOT / ("tests/kit" if file == "layers.c" else PLUGIN) / file

    @staticmethod
    def source(file):
        return Plugin.path_of(file).read_text()

    def compile(self, folder, file, text):
        """The object of a file with this text, in a folder."""
        path = folder / file
        path.write_text(text)
        command = self.commands["pointwise.c" if file == "layers.c" else file]
        skip = ("-MQ", "-MF", "-c", "-o")
        keep = [a for i, a in enumerate(command) if a not in (*skip, "-MD", "-O3", "-Werror") and command[i - 1] not in skip]
        subprocess.run([*keep, f"-I{ROOT / PLUGIN}", "-D_GNU_SOURCE", "-w", "-O1", "-c", path, "-o", path.with_suffix(".o")],
                       cwd=self.build, check=True)
        return path.with_suffix(".o")

    def make(self, folder, changed):
        """The library with these objects in place of the build's, in a folder."""
        objects = {**self.base, **changed}
        words = [str(objects.pop(name)) if (name := Path(word).name.removesuffix(".o")) in objects else word for word in self.link]
        words[words.index("-o") + 1] = str(folder / "libtenon_reference.so")
        subprocess.run([*words, *map(str, objects.values())], cwd=self.build, check=True)
        return folder / "libtenon_reference.so"

    def make_mutant(self, folder, file, old, new):
        """The library with one text replaced; None when the text is not there once."""
        text = self.source(file)
        return self.make(folder, {file: self.compile(folder, file, text.replace(old, new))}) if text.count(old) == 1 else None


def check(tenon, build, library, names):
    """The cases of these names, as the report has them."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TENON_")}
    filters = "|".join(re.escape(n).replace("\\-", "-") for n in sorted(set(names)))
    run = subprocess.run([tenon, "check", library, "--filter", f"^({filters})$", "--jobs", "1", "--timeout", "20", "--json", "-"],
                         capture_output=True, text=True, timeout=600,
                         env={**environment, "TENON_PLUGIN_PATH": f"{build}/plugins/cpu", "TENON_REFERENCE_DEVICES": "2"})
    try:
        report = json.loads(run.stdout)
    except json.JSONDecodeError:
        return [{"name": "the report", "outcome": "crashed", "reason": run.stderr[-500:], "as_expected": False}]
    return report["cases"] or [{"name": "the report", "outcome": "failed", "reason": report["fatal"], "as_expected": False}]


def table():
    return "".join(["| fault | found by |\n|---|---|\n", *(f"| {fault} | `{case}` |\n" for fault, _, _, _, case in MUTANTS)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path)
    parser.add_argument("--tenon")
    parser.add_argument("--only", default="", help="mutants whose fault matches this regular expression")
    parser.add_argument("--table", action="store_true")
    o = parser.parse_args()
    if o.table:
        print(table(), end="")
        return 0
    build = o.build.resolve()
    with tempfile.TemporaryDirectory(dir=build) as name:
        plugin = Plugin(build, Path(name))
        if not plugin.is_plain():
            print("skipped: the mutants are made of plain builds only\n0 passed, 0 failed, 1 skipped")
            return 77
        sound = [c for c in check(o.tenon, build, plugin.make(Path(name), {}), [m[4] for m in MUTANTS]) if c["outcome"] != "passed"]
        for c in sound:
            print(f"the plugin as it is: {c['name']} {c['outcome']}: {c['reason']}")
        passed, failed = 0, len(sound)
        if table() not in (ROOT / "docs/kit.md").read_text():
            print("docs/kit.md has another table: mutants.py --table prints it")
            failed += 1

        def try_one(entry):
            _, file, old, new, case = entry
            with tempfile.TemporaryDirectory(dir=build) as folder:
                library = plugin.make_mutant(Path(folder), file, old, new)
                return entry, check(o.tenon, build, library, [case]) if library else []

        for (freedom, _, _, _, case), cases in mutation.at_once(try_one, FREEDOMS):
            good = [c["outcome"] for c in cases] == ["passed"]
            print(f"{'allowed' if good else 'REFUSED' if cases else 'NO TEXT'} {freedom:52} {case}"
                  + ("" if good or not cases else f": {cases[0]['reason']}"))
            passed += good
            failed += not good
        for (fault, _, _, _, case), cases in mutation.at_once(try_one, [m for m in MUTANTS if re.search(o.only, m[0])]):
            found = [c for c in cases if not c["as_expected"] and c["name"] == case]
            print(f"{'found  ' if found else 'MISSED ' if cases else 'NO TEXT'} {fault:52} {case}"
                  + (f": {found[0]['reason'][:100]}" if found else ""))
            passed += bool(found)
            failed += not found
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
