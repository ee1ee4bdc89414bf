/* SPDX-License-Identifier: Apache-2.0 */
/* sort.stable and topk, and the order of an index for scatters (device/sort.cl). */
#include "gpu.h"

#define RUN           16  /* elements that insertion sorts faster than merging */
#define LEAST_RADIX   256 /* elements of a line for which its 256 counts are worth it */
#define LEAST_PART    2048
#define MOST_SELECTED 64 /* see device/sort.cl */

/* Elements of an index's line from which on one item takes longer to walk it than the launches of a sort; wanted items of a
 * device for each line that it sorts, since all lines are merged several times. */
#define LEAST_ORDERED  256
#define ITEMS_OF_ORDER 256

/* A sort in preparation. Keys and positions of all lines are in one allocation, twice: they go from one half to the other. */
typedef struct half {
    int64_t keys, places; /* where they begin, in elements */
} half;
typedef struct sorting {
    const tn_call *call;
    gpu_nest nest;
    const tn_tensor_desc *in, *values, *positions;
    uint32_t size, lines, kept;
    uint32_t key_bytes;
    void *memory;
    half from, to;
    int64_t counts; /* where they begin, in elements */
} sorting;

static gpu_job kernel_of(const sorting *s, const char *kernel)
{
    gpu_job job = gpu_job_of(s->call, GPU_FILE_SORT, 0, kernel);
    job.program.group = s->key_bytes == 8;
    return job;
}

static void give_half(gpu_job *job, const half *h)
{
    gpu_give(job, &h->keys, sizeof h->keys);
    gpu_give(job, &h->places, sizeof h->places);
}

static void swap(sorting *s)
{
    half from = s->from;
    s->from = s->to;
    s->to = from;
}

/* A kernel that makes keys from the elements, for so many items. */
static int32_t make_keys(const sorting *s, const char *kernel, uint64_t items, int32_t is_heavy)
{
    gpu_job job = kernel_of(s, kernel);
    gpu_give_memory(&job, s->in->allocation);
    gpu_give_memory(&job, s->memory);
    gpu_give_memory(&job, s->memory);
    give_half(&job, &s->from);
    gpu_give(&job, &s->nest, sizeof s->nest);
    return gpu_launch(&job, items, is_heavy);
}

/* ---- By digits --------------------------------------------------------------------------------------------- */

static int32_t sort_digit(const sorting *s, uint32_t shift, uint32_t parts)
{
    uint64_t items = (uint64_t)s->lines * parts;
    gpu_job count = kernel_of(s, "radix_count"), places = kernel_of(s, "radix_places"),
            move = kernel_of(s, "radix_move");
    gpu_give_memory(&count, s->memory);
    gpu_give_memory(&count, s->memory);
    gpu_give(&count, &s->counts, sizeof s->counts);
    gpu_give(&count, &s->from.keys, sizeof s->from.keys);
    gpu_give(&count, &shift, sizeof shift);
    gpu_give(&count, &s->nest, sizeof s->nest);
    int32_t status = gpu_launch(&count, items, GPU_HEAVY);
    gpu_give_memory(&places, s->memory);
    gpu_give(&places, &s->counts, sizeof s->counts);
    gpu_give(&places, &parts, sizeof parts);
    gpu_give(&places, &s->lines, sizeof s->lines);
    if (!status) status = gpu_launch(&places, s->lines, GPU_HEAVY);
    for (uint32_t k = 0; k < 5; k++) gpu_give_memory(&move, s->memory);
    give_half(&move, &s->to);
    give_half(&move, &s->from);
    gpu_give(&move, &s->counts, sizeof s->counts);
    gpu_give(&move, &shift, sizeof shift);
    gpu_give(&move, &s->nest, sizeof s->nest);
    return status ? status : gpu_launch(&move, items, GPU_HEAVY);
}

static int32_t sort_by_digits(sorting *s, uint32_t parts)
{
    int32_t status = make_keys(s, "radix_keys", (uint64_t)s->lines * parts, GPU_HEAVY);
    for (uint32_t shift = 0; !status && shift < 8 * s->nest.opcode; shift += 8) {
        status = sort_digit(s, shift, parts);
        swap(s);
    }
    return status;
}

/* ---- By merging -------------------------------------------------------------------------------------------- */

static int32_t merge(const sorting *s)
{
    gpu_job job = kernel_of(s, "sort_merge");
    for (uint32_t k = 0; k < 4; k++) gpu_give_memory(&job, s->memory);
    give_half(&job, &s->to);
    give_half(&job, &s->from);
    gpu_give(&job, &s->nest, sizeof s->nest);
    return gpu_launch(&job, s->nest.numel, GPU_LIGHT);
}

static int32_t sort_by_merging(sorting *s)
{
    s->nest.scalars[3] = RUN;
    int32_t status = make_keys(s, "sort_runs", (uint64_t)s->lines * ((s->size + RUN - 1) / RUN), GPU_LIGHT);
    for (uint64_t run = RUN; !status && run < s->size; run *= 2) {
        s->nest.scalars[3] = run;
        status = merge(s);
        swap(s);
    }
    return status;
}

/* ---- Calls -------------------------------------------------------------------------------------------------- */

/* A kernel that writes the results. */
static gpu_job result_job(sorting *s, const char *kernel)
{
    gpu_job job = kernel_of(s, kernel);
    s->nest.scalars[3] = s->kept;
    gpu_give_memory(&job, s->in->allocation);
    gpu_give_memory(&job, s->values->allocation);
    gpu_give_memory(&job, s->positions->allocation);
    return job;
}

static int32_t write_results(sorting *s)
{
    gpu_job job = result_job(s, "sort_write");
    gpu_give_memory(&job, s->memory);
    gpu_give(&job, &s->from.places, sizeof s->from.places);
    gpu_give(&job, &s->nest, sizeof s->nest);
    return gpu_launch(&job, (uint64_t)s->lines * s->kept, GPU_LIGHT);
}

/* Leaves the keys and positions in order in s->from. */
static int32_t sort_lines(sorting *s)
{
    const gpu_device *d = gpu_device_of(s->call);
    uint64_t n = s->nest.numel, wanted = gpu_items_wanted(d), parts = (wanted + s->lines - 1) / s->lines,
             offset;
    uint64_t most = (s->size + LEAST_PART - 1) / LEAST_PART, kept_bytes = s->key_bytes + 4;
    if (parts > most) parts = most;
    uint64_t length = (s->size + parts - 1) / parts;
    parts = (s->size + length - 1) / length;
    int32_t has_digits = d->properties.is_processor && s->size >= LEAST_RADIX;
    uint64_t counts = has_digits ? 256 * parts * s->lines * 4 : 0;
    /* Both halves of the keys, both of the positions, the counts. */
    int32_t status = gpu_workspace(s->call, 2 * n * kept_bytes + counts, &s->memory, &offset);
    if (status) return status;
    uint64_t places = offset + 2 * n * s->key_bytes;
    s->from = (half){(int64_t)(offset / s->key_bytes), (int64_t)(places / 4)};
    s->to = (half){s->from.keys + (int64_t)n, s->from.places + (int64_t)n};
    s->counts = (int64_t)(places / 4 + 2 * n);
    s->nest.scalars[3] = length;
    return has_digits ? sort_by_digits(s, (uint32_t)parts) : sort_by_merging(s);
}

static int32_t sort_whole(sorting *s)
{
    int32_t status = sort_lines(s);
    return status ? status : write_results(s);
}

static int32_t select_first(sorting *s)
{
    gpu_job job = result_job(s, "select_first");
    gpu_give(&job, &s->nest, sizeof s->nest);
    return gpu_launch(&job, s->lines, s->size >= 64 ? GPU_HEAVY : GPU_LIGHT);
}

/* Results of the call are the first `kept` elements of each sorted line and their positions. */
static int32_t run(const tn_call *call, int64_t dim, int32_t is_descending, int64_t kept)
{
    sorting s = {.call = call,
                 .in = gpu_tensor(call->args[0]),
                 .values = gpu_tensor(call->outs[0]),
                 .positions = gpu_tensor(call->outs[1])};
    gpu_nest *nest = &s.nest;
    gpu_nest_of_tensor(nest, s.in);
    if (!nest->numel) return TN_OK;
    gpu_nest_add(nest, 1, s.values);
    gpu_nest_add(nest, 2, s.positions);
    if (!nest->rank) nest->sizes[nest->rank++] = 1;
    uint32_t d = (uint32_t)(dim < 0 ? -1 - dim : (int64_t)nest->rank - 1 - dim);
    s.size = nest->sizes[d];
    nest->sizes[d] = nest->sizes[0];
    nest->sizes[0] = s.size;
    for (uint32_t k = 0; k < 3; k++) {
        int64_t stride = nest->strides[k][d];
        nest->strides[k][d] = nest->strides[k][0];
        nest->strides[k][0] = stride;
    }
    s.lines = nest->numel / s.size;
    s.kept = kept < 0 ? s.size : (uint32_t)kept;
    s.key_bytes = gpu_bytes(s.in->dtype) == 8 ? 8 : 4;
    nest->scalars[0] = s.size;
    nest->scalars[1] = s.lines;
    nest->scalars[2] = (uint64_t)is_descending;
    nest->opcode = gpu_bytes(s.in->dtype);
    if (!s.kept) return TN_OK;
    int32_t is_few =
        s.kept <= MOST_SELECTED && s.kept < s.size && s.lines >= gpu_items_wanted(gpu_device_of(call)) / 2;
    return is_few ? select_first(&s) : sort_whole(&s);
}

int32_t gpu_order_index(const tn_call *call, const tn_tensor_desc *index, gpu_nest *nest,
                        int32_t is_short_too, gpu_order *out)
{
    const gpu_device *d = gpu_device_of(call);
    uint64_t lines = nest->numel / nest->sizes[0], wanted = gpu_items_wanted(d), is_shared = 1;
    sorting s = {.call = call, .in = index, .nest = *nest, .size = nest->sizes[0], .key_bytes = 4};
    *out = (gpu_order){.memory = NULL};
    for (uint32_t k = 1; k < nest->rank; k++)
        if (nest->strides[1][k]) is_shared = 0;
    s.lines = is_shared ? 1 : (uint32_t)lines;
    if (d->properties.is_processor || s.size < (is_short_too ? 2 : LEAST_ORDERED) || lines >= wanted ||
        (uint64_t)s.lines * ITEMS_OF_ORDER > wanted ||
        (nest->dtypes[1] != GPU_I32 && nest->dtypes[1] != GPU_I64))
        return TN_OK;
    if (is_shared) s.nest.rank = 1;
    s.nest.numel = s.size * s.lines;
    memcpy(s.nest.strides[0], nest->strides[1], sizeof s.nest.strides[0]);
    s.nest.offsets[0] = nest->offsets[1];
    s.nest.dtypes[0] = GPU_I32; /* of int64 the low half, in which positions differ: a half of the memory */
    s.nest.opcode = 4;
    s.nest.scalars[0] = s.size;
    s.nest.scalars[1] = s.lines;
    s.nest.scalars[2] = 0;
    int32_t status = sort_lines(&s);
    *out = (gpu_order){.memory = s.memory, .keys = s.from.keys, .places = s.from.places};
    nest->scalars[3] = is_shared;
    return status;
}

void gpu_give_order(gpu_job *job, const gpu_order *order)
{
    gpu_give_memory(job, order->memory);
    gpu_give(job, &order->keys, sizeof order->keys);
    gpu_give(job, &order->places, sizeof order->places);
}

/* sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) */
static int32_t sort(void *self, const tn_call *call)
{
    return run(call, tn_value_as_int(call->args[2]), tn_value_as_bool(call->args[3]) ? 1 : 0, -1);
}

/* topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) */
static int32_t topk(void *self, const tn_call *call)
{
    return run(call, tn_value_as_int(call->args[2]), tn_value_as_bool(call->args[3]) ? 1 : 0,
               call->args[1].as.i);
}

#define ROW(text, function) GPU_ROW(ANY, text, gpu_all_dtypes, .run = function, .can_run = gpu_can_run)
static const tn_kernel_row rows[] = {
    ROW("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, "
        "Tensor indices)",
        sort),
    ROW("topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, "
        "Tensor indices)",
        topk),
};
const gpu_rows gpu_sort_rows = GPU_ROW_LIST(rows);
