/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of the libdnnl.so.3 for tests. A primitive is two pieces of work, as many of the library's are: the first one fills the
 * scratchpad and the second one expects that, so a list that is not in order is found out.
 */
#include "objects.h"
#include "../../gpu/convolve.h"

enum { FILL = 0x5a, MOST_ARGUMENTS = 8 };

typedef struct job {
    object *primitive;
    int turn;
    char *tensors[4]; /* as in the description; NULL: there is none */
    char *seconds[MOST_OPERATIONS];
    char *scratchpad;
} job;

/* ---- Products ------------------------------------------------------------------------------------------------- */

/* The place of an element; dimensions of size 1 are broadcast. */
static char *at(const shape *s, char *memory, int64_t batch, int64_t row, int64_t column)
{
    const int64_t places[] = {batch, row, column};
    int64_t offset = 0;
    for (int i = 0; i < s->rank; i++)
        if (s->sizes[i] > 1) offset += places[3 - s->rank + i] * s->strides[i];
    return memory + offset * (int64_t)(TN_DTYPE_BITS(dtype_of(s->type)) / 8);
}

/* As the primitive reads it: float16 has the mantissa of TF32. */
static double load(const job *j, const shape *s, const char *place)
{
    double value = tn_number_load(dtype_of(s->type), place).f;
    return j->primitive->what.how.math && s->type == DNNL_F32 ? rounded(TN_FLOAT16, value) : value;
}

static double sum_of(const job *j, int64_t batch, int64_t row, int64_t column)
{
    const description *d = &j->primitive->what;
    const shape *a = &d->tensors[0], *b = &d->tensors[1];
    const int64_t depth = a->sizes[a->rank - 1];
    float narrow = 0;
    double wide = 0;
    for (int64_t i = 0; i < depth; i++) {
        const int64_t k = d->how.deterministic ? i : (i + j->turn) % depth;
        const double product = load(j, a, at(a, j->tensors[0], batch, row, k)) *
                               load(j, b, at(b, j->tensors[1], batch, k, column));
        wide += product;
        narrow += (float)product;
        if (d->how.sums) narrow = (float)rounded(dtype_of(a->type), (double)narrow);
    }
    return a->type == DNNL_F64 ? wide : (double)narrow;
}

static void multiply(const job *j)
{
    const description *d = &j->primitive->what;
    const shape *dst = &d->tensors[2], *bias = &d->tensors[3];
    const int64_t rows = dst->sizes[dst->rank - 2], columns = dst->sizes[dst->rank - 1];
    const int64_t all = rows * columns * (dst->rank == 3 ? dst->sizes[0] : 1);
    for (int64_t n = 0; n < all; n++) {
        const int64_t batch = n / (rows * columns), row = n / columns % rows, column = n % columns;
        char *place = at(dst, j->tensors[2], batch, row, column);
        double value = sum_of(j, batch, row, column);
        if (j->tensors[3])
            value += tn_number_load(dtype_of(bias->type), at(bias, j->tensors[3], batch, row, column)).f;
        for (int i = 0; i < d->how.n_operations; i++) {
            const operation *o = &d->how.operations[i];
            if (o->kind == LINEAR) value *= (double)o->alpha;
            if (o->kind == SUM) value += (double)o->alpha * tn_number_load(dtype_of(dst->type), place).f;
            if (o->kind == BINARY)
                value += tn_number_load(dtype_of(o->second.type),
                                        at(&o->second, j->seconds[i], batch, row, column))
                             .f;
        }
        tn_number_store(dtype_of(dst->type), place, tn_number_real(value));
    }
}

/* ---- Convolutions --------------------------------------------------------------------------------------------- */

static void convolve(const job *j)
{
    const description *d = &j->primitive->what;
    const int axes = d->tensors[0].rank - 2;
    convolution c = {.pass = d->pass, .axes = axes, .turn = j->turn, .dtype = dtype_of(d->tensors[0].type)};
    c.how = (d->how.math ? ROUNDS_FLOAT32 : 0) | (d->how.sums ? REDUCES_SUMS : 0) |
            (d->how.deterministic ? 0 : CHANGES_THE_ORDER);
    for (int k = 0; k < 3; k++) {
        const shape *t = &d->tensors[k];
        const int grouped = t->rank - axes - 2;
        for (int i = 0; i < 5; i++) c.sizes[k][i] = i < 2 ? t->sizes[grouped + i] : 1;
        if (grouped) c.sizes[k][0] *= t->sizes[0];
        for (int i = 0; i < axes; i++) c.sizes[k][5 - axes + i] = t->sizes[grouped + 2 + i];
    }
    for (int i = 0; i < 3; i++) {
        const int from = i - (3 - axes);
        c.strides[i] = from < 0 ? 1 : d->strides[from];
        c.dilations[i] = from < 0 ? 1 : d->dilations[from] + 1;
        c.paddings[i] = from < 0 ? 0 : d->paddings[from];
    }
    if (!convolve_all(&c, j->tensors)) report("no memory for a convolution");
}

/* ---- Execution ------------------------------------------------------------------------------------------------ */

static void first_piece(void *data)
{
    const job *j = data;
    const size_t bytes = j->primitive->what.scratchpad.bytes;
    if (bytes) memset(j->scratchpad, FILL, bytes);
}

static void second_piece(void *data)
{
    const job *j = data;
    const description *d = &j->primitive->what;
    size_t wrong = 0;
    for (size_t i = 0; i < d->scratchpad.bytes; i++) wrong += j->scratchpad[i] != FILL;
    if (wrong) report("%zu bytes of a scratchpad changed while its primitive ran", wrong);
    if (d->scratchpad.bytes) memset(j->scratchpad, 0xee, d->scratchpad.bytes);
    if (d->pass == MATMUL)
        multiply(j);
    else
        convolve(j);
    count(QUEUED, -1);
    __atomic_sub_fetch(&j->primitive->in_use, 1, __ATOMIC_ACQ_REL);
}

/* Where the memory of an argument really lies; NULL: it is not there, or wrong, which is reported. */
static char *memory_of(const object *primitive, const shape *tensor, int argument, int n,
                       const dnnl_argument *arguments)
{
    for (int i = 0; i < n; i++) {
        if (arguments[i].argument != argument) continue;
        const object *m = use(arguments[i].memory, 'm', __func__);
        if (!m || memcmp(&m->tensor, tensor, sizeof *tensor) != 0) break;
        if (!pthread_equal(m->setter, pthread_self()))
            report("argument %d: another thread has set it", argument);
        if ((uintptr_t)m->place % 64) report("argument %d: %p is not aligned", argument, m->place);
        char *place = the_driver()->place(primitive->engine->context, m->place, tensor->bytes);
        if (!place)
            report("argument %d: %zu bytes at %p are not the device's", argument, tensor->bytes, m->place);
        return place;
    }
    report("argument %d is missing, or of another tensor", argument);
    return NULL;
}

/* 0: an argument is wrong. */
static int find_memory(job *j, int n, const dnnl_argument *arguments)
{
    static const int names[4][4] = {{1, 33, 17, 41}, {1, 33, 17}, {129, 33, 145}, {1, 161, 145}};
    const description *d = &j->primitive->what;
    int used = 0;
    for (int k = 0; k < 4; k++) {
        if (!d->tensors[k].rank) continue;
        j->tensors[k] = memory_of(j->primitive, &d->tensors[k], names[d->pass + 1][k], n, arguments);
        used++;
        if (!j->tensors[k]) return 0;
    }
    for (int i = 0; i < d->how.n_operations; i++) {
        const operation *o = &d->how.operations[i];
        if (o->kind != BINARY) continue;
        j->seconds[i] = memory_of(j->primitive, &o->second, 32768 * (i + 1) + 2, n, arguments);
        used++;
        if (!j->seconds[i]) return 0;
    }
    if (d->scratchpad.rank) {
        j->scratchpad = memory_of(j->primitive, &d->scratchpad, 80, n, arguments);
        used++;
        if (!j->scratchpad) return 0;
    }
    if (used != n) report("%d arguments, the primitive has %d", n, used);
    return used == n;
}

int execute(object *primitive, const object *stream, int n, const dnnl_argument *arguments)
{
    const description *d = &primitive->what;
    job j = {.primitive = primitive};
    if (!find_memory(&j, n, arguments)) return DNNL_INVALID_ARGUMENTS;
    j.turn = count(d->pass == MATMUL ? PRODUCTS : CONVOLUTIONS, 1);
    __atomic_store_n(&counts[MATH], d->how.math, __ATOMIC_RELEASE);
    __atomic_store_n(&counts[SUMS], d->how.sums, __ATOMIC_RELEASE);
    __atomic_store_n(&counts[DETERMINISTIC], d->how.deterministic, __ATOMIC_RELEASE);
    count(QUEUED, 1);
    __atomic_add_fetch(&primitive->in_use, 1, __ATOMIC_ACQ_REL);
    if (the_driver()->queue(stream->list, first_piece, &j, sizeof j) ||
        the_driver()->queue(stream->list, second_piece, &j, sizeof j))
        return DNNL_RUNTIME_ERROR;
    return DNNL_SUCCESS;
}
