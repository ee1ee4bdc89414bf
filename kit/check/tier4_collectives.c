/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 4, collectives: each over all devices of the plugin, for each reduction and dtype, against the same
 * arithmetic on the host. The numbers are small integers, so that sums and products are exact in any order;
 * only an average may be rounded.
 */
#include "sources.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 64 /* at most */

enum { ALL_REDUCE, REDUCE_SCATTER, BROADCAST, ALL_GATHER, CALLS };
static const char *const call_names[] = {"all_reduce", "reduce_scatter", "broadcast", "all_gather"};
static const char *const reduction_names[] = {"sum", "product", "min", "max", "average"};
#define REDUCTIONS 5u

static const tn_dtype dtypes[] = {TN_FLOAT64, TN_FLOAT32, TN_FLOAT16,   TN_BFLOAT16,
                                  TN_INT64,   TN_INT32,   TN_INT16,     TN_INT8,
                                  TN_UINT8,   TN_BOOL,    TN_COMPLEX64, TN_COMPLEX128};

typedef struct plan {
    int32_t call;
    uint32_t reduction;
    tn_dtype dtype;
} plan;

/* Devices, a communicator of all of them, lists of tensors. */
typedef struct ring {
    check_target *t;
    check_result *out;
    tn_scope *s;
    tn_communicator *all;
    uint32_t count;
    tn_device devices[RANKS];
} ring;

static int open_ring(check_target *t, check_result *out, ring *r)
{
    *r = (ring){.t = t, .out = out};
    r->count = t->device_count < RANKS ? t->device_count : RANKS;
    for (uint32_t i = 0; i < r->count; i++) r->devices[i] = TN_DEVICE(TN_DEVICE_TYPE(t->device), i);
    int32_t status = tn_communicator_create(t->ctx, r->devices, r->count, &r->all);
    if (status == TN_E_UNSUPPORTED)
        check_absent(out, "the plugin offers no collectives: %s", tn_last_error()->message);
    else if (status)
        check_fail_with_error(out, NULL, "making a communicator");
    else
        r->s = tn_scope_open(t->ctx);
    t->error_line[0] = 0;
    return r->s != NULL;
}

static void close_ring(ring *r)
{
    if (r->s && tn_scope_failed(r->s)) check_fail_with_error(r->out, r->s, "the calls of the case");
    tn_scope_close(r->s);
    tn_communicator_release(r->all);
}

/* ---- Numbers ------------------------------------------------------------------------------------------- */

/* Part `im` of element i of a rank. Products fit a byte, since almost all factors are -1, 0 and 1. */
static double number(const plan *p, uint32_t rank, int64_t i, int im)
{
    uint64_t n = (uint64_t)i * 7 + rank * 3 + (uint64_t)im * 5;
    int is_unsigned = p->dtype == TN_UINT8 || p->dtype == TN_BOOL;
    if (p->dtype == TN_BOOL) return (double)(n % 8 < (p->reduction == TN_REDUCE_SUM ? 2 : 7));
    if (p->reduction == TN_REDUCE_PRODUCT && is_unsigned) return (double)(n % 9 != 0);
    if (p->reduction == TN_REDUCE_PRODUCT) return n % 9 == 0 ? 0 : n % 2 ? 1 : -1;
    return is_unsigned ? (double)(n % 3) : (double)(n % 5) - 2;
}

static int is_complex(const plan *p)
{
    return tn_dtype_is_complex(p->dtype);
}

/* The tensor of one rank: it begins within its storage, as slices do. */
static tn_tensor *make(const ring *r, const plan *p, uint32_t rank, int64_t count, int64_t first)
{
    int64_t lead = 3, parts = is_complex(p) ? 2 : 1;
    double *values = malloc((size_t)((count + lead) * parts) * sizeof *values);
    tn_dtype wide = is_complex(p) ? TN_COMPLEX128 : TN_FLOAT64;
    for (int64_t i = 0; i < count + lead; i++) {
        for (int im = 0; im < parts; im++)
            values[i * parts + im] = i < lead ? 1 : number(p, rank, first + i - lead, im);
    }
    tn_tensor *t = tn_from_data(r->s, wide, TN_INTS(count + lead), values, TN_CPU);
    free(values);
    t = tn__to_copy(r->s, tn__to_copy(r->s, t, .dtype = p->dtype), .device = r->devices[rank]);
    return t ? tn_narrow(r->s, t, 0, lead, count) : NULL;
}

/* The reduction of element i over all ranks. */
static void reduce(const ring *r, const plan *p, int64_t i, double out[2])
{
    out[0] = number(p, 0, i, 0);
    out[1] = is_complex(p) ? number(p, 0, i, 1) : 0;
    for (uint32_t k = 1; k < r->count; k++) {
        double re = number(p, k, i, 0), im = is_complex(p) ? number(p, k, i, 1) : 0, old = out[0];
        switch (p->reduction) {
        case TN_REDUCE_PRODUCT:
            out[0] = old * re - out[1] * im;
            out[1] = old * im + out[1] * re;
            break;
        case TN_REDUCE_MIN:
            out[0] = fmin(old, re);
            break;
        case TN_REDUCE_MAX:
            out[0] = fmax(old, re);
            break;
        default:
            out[0] += re;
            out[1] += im;
        }
    }
    if (p->reduction == TN_REDUCE_AVERAGE) {
        out[0] /= r->count;
        out[1] /= r->count;
    }
    if (p->dtype == TN_BOOL) out[0] = out[0] != 0;
}

/* The expected element i of one rank's result. */
static void expected(const ring *r, const plan *p, uint32_t rank, int64_t i, int64_t count, double out[2])
{
    out[1] = 0;
    if (p->call == ALL_REDUCE)
        reduce(r, p, i, out);
    else if (p->call == REDUCE_SCATTER)
        reduce(r, p, rank * count + i, out);
    else
        for (int im = 0; im <= is_complex(p); im++)
            out[im] = p->call == BROADCAST ? number(p, r->count - 1, i, im)
                                           : number(p, (uint32_t)(i / count), i % count, im);
}

static int compare(const ring *r, const plan *p, uint32_t rank, const tn_tensor *t, int64_t count)
{
    const double *got = t ? check_doubles(r->s, t) : NULL;
    check_tolerance tolerance =
        p->reduction == TN_REDUCE_AVERAGE ? check_tolerance_of(p->dtype) : (check_tolerance){0};
    int parts = is_complex(p) ? 2 : 1;
    if (!got) {
        check_fail_with_error(r->out, r->s, "reading a result");
        return 0;
    }
    check_that(r->out, tn_tensor_device(t) == r->devices[rank], "rank %u: the result is on another device",
               rank);
    for (int64_t i = 0; i < tn_tensor_numel(t); i++) {
        double want[2];
        expected(r, p, rank, i, count, want);
        for (int im = 0; im < parts; im++) {
            double is = got[i * parts + im];
            if (!(fabs(is - want[im]) <= tolerance.atol + tolerance.rtol * fabs(want[im])))
                return check_that(r->out, 0, "%u ranks of %lld: rank %u, element %lld%s is %g, expected %g",
                                  r->count, (long long)count, rank, (long long)i,
                                  im ? " (imaginary part)" : "", is, want[im]);
        }
    }
    return 1;
}

/* ---- Each call ----------------------------------------------------------------------------------------- */

static int32_t make_call(const ring *r, const plan *p, tn_tensor **outs, tn_tensor **inputs)
{
    switch (p->call) {
    case ALL_REDUCE:
        return tn_communicator_all_reduce(r->all, outs, r->count, p->reduction);
    case REDUCE_SCATTER:
        return tn_communicator_reduce_scatter(r->all, outs, inputs, r->count, p->reduction);
    case BROADCAST:
        return tn_communicator_broadcast(r->all, outs, r->count, r->count - 1);
    default:
        return tn_communicator_all_gather(r->all, outs, inputs, r->count);
    }
}

static void run_size(const ring *r, const plan *p, int64_t count)
{
    tn_tensor *outs[RANKS], *inputs[RANKS];
    for (uint32_t k = 0; k < r->count; k++) {
        int64_t all = count * r->count;
        if (p->call == ALL_GATHER || p->call == REDUCE_SCATTER)
            inputs[k] = make(r, p, k, p->call == ALL_GATHER ? count : all, 0);
        outs[k] = make(r, p, k, p->call == ALL_GATHER ? all : count, p->call == ALL_GATHER ? 999 : 0);
    }
    if (tn_scope_failed(r->s)) return;
    if (make_call(r, p, outs, inputs)) {
        check_fail_with_error(r->out, NULL, call_names[p->call]);
        return;
    }
    for (uint32_t k = 0; k < r->count; k++) {
        if (!compare(r, p, k, outs[k], count)) return;
    }
}

static void run_call(check_target *t, const check_case *c, check_result *out)
{
    const plan *p = c->data;
    static const int64_t sizes[] = {1, 5, 1000, 70001};
    ring r;
    if (open_ring(t, out, &r)) {
        if (p->call <= REDUCE_SCATTER && !tn_communicator_reduces(r.all, p->dtype, p->reduction))
            check_skip(out, "the plugin does not reduce %s by %s", tn_dtype_name(p->dtype),
                       reduction_names[p->reduction]);
        else if (p->call > REDUCE_SCATTER && !check_has_dtype(t, p->dtype))
            check_skip(out, "the device has no such dtype");
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes && out->outcome == CHECK_PASSED; i++)
            run_size(&r, p, sizes[i]);
    }
    close_ring(&r);
}

/* ---- Order --------------------------------------------------------------------------------------------- */

#define ROUNDS 6
#define LENGTH 5000

/* Streams beside the default ones, and a tensor of k + 1 on each. */
static int open_streams(const ring *r, tn_stream **streams, tn_tensor **x)
{
    for (uint32_t k = 0; k < r->count; k++) {
        if (tn_stream_create(r->t->ctx, r->devices[k], r->t->facts.priority_low, &streams[k]) ||
            tn_stream_set_current(r->t->ctx, streams[k])) {
            check_fail_with_error(r->out, NULL, "a stream for each device");
            return 0;
        }
        x[k] = tn_full(r->s, TN_INTS(LENGTH), k + 1.0, .dtype = TN_FLOAT32, .device = r->devices[k]);
    }
    return 1;
}

/* x + k in fresh memory; its sum over the ranks, divided by their number, is the next x. */
static void run_round(const ring *r, tn_tensor **x, double *want)
{
    double sum = 0;
    for (uint32_t k = 0; k < r->count; k++) {
        tn_tensor *before = x[k];
        x[k] = tn_add_scalar(r->s, before, (double)k);
        tn_drop(r->s, before);
        sum += want[k] + k;
    }
    if (tn_scope_failed(r->s)) return;
    if (tn_communicator_all_reduce(r->all, x, r->count, TN_REDUCE_SUM) || tn_communicator_barrier(r->all))
        check_fail_with_error(r->out, NULL, "all_reduce and barrier");
    for (uint32_t k = 0; k < r->count; k++) {
        tn_mul_scalar_(r->s, x[k], 1.0 / r->count);
        want[k] = sum / r->count;
    }
}

/* Work before and after each call without any wait; released memory is reused at once. */
static void compare_order(const ring *r)
{
    tn_stream *streams[RANKS] = {NULL};
    tn_tensor *x[RANKS];
    double want[RANKS];
    for (uint32_t k = 0; k < r->count; k++) want[k] = k + 1.0;
    if (open_streams(r, streams, x)) {
        for (int round = 0; round < ROUNDS && r->out->outcome == CHECK_PASSED; round++) run_round(r, x, want);
        for (uint32_t k = 0; k < r->count && !tn_scope_failed(r->s); k++) {
            const double *got = check_doubles(r->s, x[k]);
            for (int i = 0; got && i < LENGTH; i++) {
                if (!check_that(r->out, fabs(got[i] - want[k]) <= 1e-5 * want[k],
                                "rank %u, element %d is %g after %d rounds, expected %g", k, i, got[i],
                                ROUNDS, want[k]))
                    break;
            }
        }
    }
    for (uint32_t k = 0; k < r->count; k++) {
        tn_stream_set_current(r->t->ctx, tn_stream_default(r->t->ctx, r->devices[k]));
        tn_stream_release(streams[k]);
    }
}

static void run_order(check_target *t, const check_case *c, check_result *out)
{
    ring r;
    (void)c;
    if (open_ring(t, out, &r)) {
        if (tn_communicator_reduces(r.all, TN_FLOAT32, TN_REDUCE_SUM))
            compare_order(&r);
        else
            check_skip(out, "the plugin reduces no float32");
    }
    close_ring(&r);
}

/* ---- From rank to rank --------------------------------------------------------------------------------- */

#define MESSAGES 2
static const int64_t lengths[MESSAGES] = {3000, 1};
static const plan message_plan = {.call = BROADCAST, .dtype = TN_FLOAT32};

/* Of one rank. */
typedef struct messages {
    tn_tensor *sent[MESSAGES];
    tn_tensor *got[MESSAGES];
} messages;

static int32_t send_all(const ring *r, uint32_t k, const messages *m)
{
    int32_t status = TN_OK;
    for (int n = 0; n < MESSAGES && !status; n++)
        status = tn_communicator_send(r->all, m->sent[n], (k + 1) % r->count);
    return status;
}

static int32_t receive_all(const ring *r, uint32_t k, const messages *m)
{
    int32_t status = TN_OK;
    for (int n = 0; n < MESSAGES && !status; n++)
        status = tn_communicator_receive(r->all, m->got[n], (k + r->count - 1) % r->count);
    return status;
}

/* Every rank sends to the next. A stream may wait until its message is received: so even ranks send first, and
 * nothing waits for a stream before all is queued. */
static int32_t pass_messages(const ring *r, messages *all)
{
    int32_t status = TN_OK;
    for (uint32_t k = 0; k < r->count; k++) {
        for (int n = 0; n < MESSAGES; n++) {
            all[k].sent[n] = make(r, &message_plan, k, lengths[n], 0);
            all[k].got[n] = make(r, &message_plan, k, lengths[n], 999);
        }
    }
    for (uint32_t k = 0; k < r->count && !status; k++) {
        if (k % 2 == 0) status = send_all(r, k, &all[k]);
        if (!status) status = receive_all(r, k, &all[k]);
        if (k % 2 && !status) status = send_all(r, k, &all[k]);
    }
    return status;
}

static void compare_message(const ring *r, uint32_t k, int n, const tn_tensor *t)
{
    const double *is = t ? check_doubles(r->s, t) : NULL;
    for (int64_t i = 0; is && i < lengths[n]; i++) {
        double want = number(&message_plan, (k + r->count - 1) % r->count, i, 0);
        if (!check_that(r->out, is[i] == want, "rank %u, message %d, element %lld is %g, expected %g", k, n,
                        (long long)i, is[i], want))
            return;
    }
}

static void run_send(check_target *t, const check_case *c, check_result *out)
{
    messages all[RANKS];
    ring r;
    (void)c;
    int good = open_ring(t, out, &r);
    int32_t status = !good ? TN_OK : r.count > 1 ? pass_messages(&r, all) : TN_E_UNSUPPORTED;
    if (status == TN_E_UNSUPPORTED)
        check_absent(out, "%s",
                     r.count > 1 ? "the plugin does not send between ranks"
                                 : "one rank has nobody to send to");
    else if (status)
        check_fail_with_error(out, NULL, "send and receive");
    t->error_line[0] = 0;
    for (uint32_t k = 0; good && !status && k < r.count; k++)
        for (int n = 0; n < MESSAGES && out->outcome == CHECK_PASSED; n++)
            compare_message(&r, k, n, all[k].got[n]);
    close_ring(&r);
}

/* ---- Cases --------------------------------------------------------------------------------------------- */

static int makes_sense(const plan *p)
{
    if (p->reduction == TN_REDUCE_MIN || p->reduction == TN_REDUCE_MAX) return !is_complex(p);
    return p->reduction != TN_REDUCE_AVERAGE || is_complex(p) || tn_dtype_is_floating(p->dtype);
}

static void add_plan(check_list *list, plan p, const char *what)
{
    plan *kept = check_memory(list, sizeof *kept);
    *kept = p;
    check_add(list, &(check_case){.tier = 4, .tags = CHECK_TAG_OPTIONAL, .run = run_call, .data = kept},
              "4/collectives/%s%s%s/%s", call_names[p.call], *what ? "/" : "", what, tn_dtype_name(p.dtype));
}

void check_tier4_collectives(check_target *t, check_list *list)
{
    (void)t;
    for (int32_t call = 0; call < CALLS; call++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            if (call > REDUCE_SCATTER) add_plan(list, (plan){call, 0, dtypes[d]}, "");
            for (uint32_t i = 0; call <= REDUCE_SCATTER && i < REDUCTIONS; i++) {
                const plan p = {call, i, dtypes[d]};
                if (makes_sense(&p)) add_plan(list, p, reduction_names[i]);
            }
        }
    }
    check_add(list, &(check_case){.tier = 4, .tags = CHECK_TAG_OPTIONAL, .run = run_order},
              "4/collectives/order");
    check_add(list, &(check_case){.tier = 4, .tags = CHECK_TAG_OPTIONAL, .run = run_send},
              "4/collectives/send");
}
