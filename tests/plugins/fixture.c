/* SPDX-License-Identifier: Apache-2.0 */
/* The host in miniature: loading, tensors, nests and calls. See fixture.h. */
#include "fixture.h"
#include "slots.h"
#include "../core/at_end.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static int32_t host_error(void *context, int32_t code, const char *message)
{
    fixture *f = context;
    f->error_code = code;
    strncpy(f->error_message, message, sizeof(f->error_message) - 1);
    return code;
}

static void *host_alloc(void *context, uint64_t bytes)
{
    return aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
}

static void host_free(void *context, void *memory, uint64_t bytes)
{
    free(memory);
}

/* Replaces an output by a contiguous one of the given sizes. `state` of the call is the fixture. */
static int32_t host_resize_output(const tn_call *call, uint32_t i, uint32_t rank, const int64_t *sizes)
{
    fixture *f = call->state;
    fixture_tensor *out = (fixture_tensor *)(void *)call->outs[i].as.tensor;
    tn_dtype dtype = out->desc.dtype;
    fixture_tensor_free(f, out);
    *out = fixture_tensor_make(f, dtype, rank, sizes, NULL);
    out->desc.sizes = out->sizes;
    out->desc.strides = out->strides;
    return TN_OK;
}

static int32_t host_workspace(const tn_call *call, const tn_memory_request *request, tn_memory *out)
{
    fixture *f = call->state;
    cr_assert_lt(f->scratch_count, 16);
    void *memory = request->bytes ? host_alloc(f, request->bytes) : NULL; /* no workspace has no address */
    if (memory) f->scratch[f->scratch_count++] = memory;
    out->allocation = memory;
    out->host = memory;
    out->address = (uint64_t)(uintptr_t)memory;
    out->bytes = request->bytes;
    return TN_OK;
}

int32_t (*fixture_cache_folder)(void *, const char *, char *, uint32_t);

static void make_host(fixture *f)
{
    f->host = (tn_host){.size = sizeof(tn_host),
                        .abi_major = TN_ABI_MAJOR,
                        .abi_minor = TN_ABI_MINOR,
                        .context = f,
                        .error = host_error,
                        .alloc = host_alloc,
                        .free = host_free,
                        .workspace = host_workspace,
                        .resize_output = host_resize_output,
                        .cache_folder = fixture_cache_folder};
}

void fixture_load(fixture *f)
{
    const char *path = getenv("TENON_TEST_MODULE");
    char reason[128] = "";
    tn_host_offer offer = {sizeof(offer), TN_ABI_GENERATION, TN_ABI_GENERATION, 0, reason, sizeof(reason), 0};
    memset(f, 0, sizeof(*f));
    make_host(f);
    cr_assert_not_null(path, "TENON_TEST_MODULE names the module under test");
    f->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(f->library, "%s", dlerror());
    f->info = dlsym(f->library, TN_PLUGIN_SYMBOL);
    cr_assert_not_null(f->info);
    f->table.size = sizeof(f->table);
    cr_assert_eq(f->info->entry(&offer, &f->table), TN_OK, "%s", reason);
    cr_assert_eq(f->table.init(&f->host, &f->self), TN_OK, "%s", f->error_message);
    SLOT_FIND_INTERFACES(f);
    cr_assert(f->device_interface && f->memory && f->copy && f->streams);
}

void fixture_open(fixture *f)
{
    fixture_load(f);
    cr_assert_eq(slot_open(f->device_interface, f->self, 0, &f->device), TN_OK, "%s", f->error_message);
    cr_assert_eq(slot_stream(f->streams, f->self, f->device, 0, &f->stream), TN_OK, "%s", f->error_message);
}

void fixture_close(fixture *f)
{
    if (f->stream && f->n_kept > 0) f->streams->synchronize(f->self, f->device, f->stream);
    while (f->device && f->n_kept > 0) {
        f->n_kept--;
        slot_free(f->memory, f->self, f->device, f->kept[f->n_kept].allocation, f->kept[f->n_kept].bytes);
    }
    if (f->stream) f->streams->destroy(f->self, f->device, f->stream);
    if (f->table.quiesce) MUST_HOLD(f->table.quiesce(f->self) == TN_OK);
    if (f->device) f->device_interface->close(f->self, f->device);
    f->table.shutdown(f->self);
    /* Threads of a plugin without the flag may still run its code: it stays loaded. */
    if (f->info->flags & TN_PLUGIN_CAN_UNLOAD) dlclose(f->library);
}

fixture_tensor fixture_tensor_make(fixture *f, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                                   const void *data)
{
    fixture_tensor t = {
        .desc = {
            .size = sizeof(tn_tensor_desc), .dtype = dtype, .layout = TN_INTERNED_STRIDED, .rank = rank}};
    tn_device_facts facts = {.size = sizeof(facts)};
    int64_t numel = 1;
    for (uint32_t d = rank; d-- > 0;) {
        t.sizes[d] = sizes[d];
        t.strides[d] = numel;
        numel *= sizes[d];
    }
    t.bytes = (uint64_t)(numel * tn_dtype_bytes(dtype));
    if (t.bytes == 0) return t;
    cr_assert_eq(f->device_interface->facts(f->self, 0, &facts), TN_OK);
    cr_assert_eq(slot_alloc(f->memory, f->self, f->device, t.bytes,
                            facts.memory_kinds & (0u - facts.memory_kinds), &t.desc.allocation, &t.desc.host),
                 TN_OK, "%s", f->error_message);
    cr_assert_lt(f->n_kept, sizeof f->kept / sizeof *f->kept);
    f->kept[f->n_kept].allocation = t.desc.allocation;
    f->kept[f->n_kept++].bytes = t.bytes;
    if (data)
        cr_assert_eq(
            f->copy->host_to_device(f->self, f->device, t.desc.allocation, 0, data, NULL, t.bytes, f->stream),
            TN_OK);
    else
        cr_assert_eq(f->memory->fill(f->self, f->device, t.desc.allocation, 0, t.bytes, 0, f->stream), TN_OK);
    /* `data` may be a temporary of the caller. */
    cr_assert_eq(f->streams->synchronize(f->self, f->device, f->stream), TN_OK);
    return t;
}

void fixture_tensor_free(fixture *f, fixture_tensor *t)
{
    uint32_t i = 0;
    while (i < f->n_kept && f->kept[i].allocation != t->desc.allocation) i++;
    if (i < f->n_kept) f->kept[i] = f->kept[--f->n_kept];
    if (t->desc.allocation) slot_free(f->memory, f->self, f->device, t->desc.allocation, t->bytes);
    t->desc.allocation = NULL;
}

int32_t fixture_read(fixture *f, const fixture_tensor *t, void *out)
{
    if (t->bytes)
        cr_assert_eq(f->copy->device_to_host(f->self, f->device, out, NULL, t->desc.allocation, 0, t->bytes,
                                             f->stream),
                     TN_OK);
    return f->streams->synchronize(f->self, f->device, f->stream);
}

tn_value fixture_value(fixture_tensor *t)
{
    t->desc.sizes = t->sizes;
    t->desc.strides = t->strides;
    return tn_value_tensor((tn_tensor *)(void *)t);
}

static void set_operand(fixture_nest *n, uint32_t i, const fixture_tensor *t)
{
    n->operands[i] = (tn_operand){.size = sizeof(tn_operand),
                                  .dtype = t->desc.dtype,
                                  .byte_offset = t->desc.byte_offset,
                                  .allocation = t->desc.allocation,
                                  .host = t->desc.host,
                                  .strides = n->strides[i]};
}

static void finish_nest(fixture_nest *n, uint32_t rank, uint32_t kept, uint32_t n_outputs, uint32_t count)
{
    n->nest = (tn_nest){.size = sizeof(tn_nest),
                        .rank = rank,
                        .kept = kept,
                        .n_outputs = n_outputs,
                        .n_operands = count,
                        .operand_bytes = sizeof(tn_operand),
                        .numel = 1,
                        .sizes = n->sizes,
                        .operands = n->operands};
    for (uint32_t d = 0; d < rank; d++) n->nest.numel *= n->sizes[d];
    for (uint32_t i = 0; i < n_outputs; i++) n->operands[i].flags = TN_OPERAND_OUTPUT;
}

void fixture_pointwise(fixture_nest *n, fixture_tensor *const *operands, uint32_t count, uint32_t n_outputs)
{
    const fixture_tensor *out = operands[0];
    uint32_t rank = out->desc.rank;
    memset(n, 0, sizeof(*n));
    for (uint32_t d = 0; d < rank; d++) n->sizes[d] = out->sizes[rank - 1 - d];
    for (uint32_t i = 0; i < count; i++) {
        const fixture_tensor *t = operands[i];
        set_operand(n, i, t);
        for (uint32_t d = 0; d < t->desc.rank; d++) {
            uint32_t from = t->desc.rank - 1 - d;
            n->strides[i][d] = t->sizes[from] == 1 ? 0 : t->strides[from] * tn_dtype_bytes(t->desc.dtype);
        }
    }
    finish_nest(n, rank, rank, n_outputs, count);
}

void fixture_reduction(fixture_nest *n, const fixture_tensor *out, const fixture_tensor *in, uint32_t reduced)
{
    uint32_t rank = in->desc.rank, at = 0, kept = 0;
    int64_t out_stride = tn_dtype_bytes(out->desc.dtype);
    memset(n, 0, sizeof(*n));
    set_operand(n, 0, out);
    set_operand(n, 1, in);
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t d = rank; d-- > 0;) {
            if ((reduced >> d & 1u) != pass) continue;
            n->sizes[at] = in->sizes[d];
            n->strides[1][at] = in->strides[d] * tn_dtype_bytes(in->desc.dtype);
            if (pass == 0) {
                n->strides[0][at] = out_stride;
                out_stride *= in->sizes[d];
            }
            at++;
        }
        if (pass == 0) kept = at;
    }
    finish_nest(n, rank, kept, 1, 2);
}

const tn_kernel_row *fixture_row(const fixture *f, const char *name)
{
    size_t length = strlen(name);
    for (uint32_t i = 0; f->kernels && i < f->kernels->count; i++) {
        const tn_kernel_row *row = (const tn_kernel_row *)(const void *)((const char *)f->kernels->rows +
                                                                         (size_t)i * f->kernels->row_bytes);
        if (!strncmp(row->schema, name, length) && row->schema[length] == '(') return row;
    }
    return NULL;
}

tn_call fixture_call(fixture *f, const tn_kernel_row *row, const tn_value *args, uint32_t n_args,
                     tn_value *outs, uint32_t n_outs)
{
    return (tn_call){.size = sizeof(tn_call),
                     .n_args = n_args,
                     .n_outs = n_outs,
                     .args = args,
                     .outs = outs,
                     .data = row->data,
                     .device = f->device,
                     .stream = f->stream,
                     .host = &f->host,
                     .state = f,
                     .threads = f->threads ? f->threads : 1};
}

int32_t fixture_run_call(fixture *f, const tn_kernel_row *row, const tn_call *call)
{
    int32_t status = row->run(f->self, call);
    while (f->scratch_count) free(f->scratch[--f->scratch_count]);
    return status;
}

int32_t fixture_run(fixture *f, const char *name, const tn_value *args, uint32_t n_args, tn_value *outs,
                    uint32_t n_outs, const tn_nest *nest)
{
    const tn_kernel_row *row = fixture_row(f, name);
    cr_assert_not_null(row, "%s has a row", name);
    tn_call call = fixture_call(f, row, args, n_args, outs, n_outs);
    call.nest = nest;
    return fixture_run_call(f, row, &call);
}
