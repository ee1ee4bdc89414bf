/* SPDX-License-Identifier: Apache-2.0 */
/* Makes plans and keeps the latest. */
#include "fft_kernels.h"
#include "turn.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_PLANS 64
/* Of all plans that are kept; a plan that is larger by itself is made for each call. */
#define KEPT_BYTES (64 << 20)
/* The longest split line whose twiddle factors are all stored; those of longer ones are products of two. */
#define FULL_TWIDDLES (1 << 16)

/* ---- Factors ---------------------------------------------------------------------------- */

/* Factors of n, at most one of them 2; 0 if there is a prime factor above 13. */
static int32_t factors_of(int64_t n, bool many_eights, int32_t *out)
{
    static const int32_t odd[] = {13, 11, 7, 5, 3};
    int32_t count = 0, twos = 0;
    for (; n % 2 == 0; n /= 2) twos++;
    while (many_eights ? twos > 4 || twos == 3 : twos % 2 && twos > 1) {
        out[count++] = 8;
        twos -= 3;
    }
    for (; twos > 1; twos -= 2) out[count++] = 4;
    for (uint32_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (; n % odd[i] == 0; n /= odd[i]) out[count++] = odd[i];
    if (twos) out[count++] = 2;
    return n == 1 ? count : 0;
}

static bool is_smooth(int64_t n)
{
    int32_t factors[CPU_FFT_PASSES];
    return n == 1 || factors_of(n, false, factors) > 0;
}

/* The next length from `least` on that has no factors but a power of two and few others. */
static int64_t padded_length(int64_t least)
{
    static const int64_t odd[] = {1, 3, 5, 9, 15};
    int64_t best = 0;
    for (uint32_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        int64_t n = odd[i] * 16;
        while (n < least) n *= 2;
        if (!best || n < best) best = n;
    }
    return best;
}

/* ---- Tables ------------------------------------------------------------------------------------------ */

typedef struct maker {
    const cpu_fft_kernels *kernels;
    bool is_double, has_turns;
} maker;

static int64_t element_bytes(const maker *m)
{
    return m->is_double ? 8 : 4;
}

/* Memory of the plan, in elements. */
static void *make_table(const maker *m, cpu_fft_plan *plan, int64_t count)
{
    int64_t bytes = round_up(max_i64(count, 1) * element_bytes(m), 64);
    void *table = aligned_alloc(64, (size_t)bytes);
    if (!table) return NULL;
    memset(table, 0, (size_t)bytes);
    plan->tables[plan->table_count++] = table;
    plan->bytes += bytes;
    return table;
}

static void set_element(const maker *m, void *table, int64_t at, double x)
{
    if (m->is_double)
        ((double *)table)[at] = x;
    else
        ((float *)table)[at] = (float)x;
}

static void set_pair(const maker *m, void *table, int64_t at, const double x[2])
{
    set_element(m, table, 2 * at, x[0]);
    set_element(m, table, 2 * at + 1, x[1]);
}

/* One lane of a cell. */
static void set_lane(const maker *m, void *table, int64_t at, int64_t lane, const double x[2])
{
    set_element(m, table, 2 * at * m->kernels->lanes + lane, x[0]);
    set_element(m, table, (2 * at + 1) * m->kernels->lanes + lane, x[1]);
}

/* ---- Forms ------------------------------------------------------------------------------------------- */

static cpu_fft_plan *make(const maker *m, int64_t n, cpu_fft_form form);

static void destroy(cpu_fft_plan *plan)
{
    if (!plan) return;
    destroy(plan->columns);
    destroy(plan->rows);
    destroy(plan->padded);
    for (int32_t i = 0; i < plan->table_count; i++) free(plan->tables[i]);
    free(plan);
}

static bool make_passes(const maker *m, cpu_fft_plan *plan)
{
    int32_t factors[CPU_FFT_PASSES];
    int64_t rest = plan->n, stride = 1;
    double x[2];
    plan->pass_count =
        plan->n == 1 ? 0 : factors_of(plan->n, m->kernels->lanes * element_bytes(m) == 64, factors);
    for (int32_t i = 0; i < plan->pass_count; i++) {
        int32_t radix = factors[i];
        int64_t groups = rest / radix;
        void *table = make_table(m, plan, groups * (radix - 1) * 2);
        if (!table) return false;
        for (int64_t k = 0; k < groups; k++) {
            for (int32_t j = 1; j < radix; j++) {
                turn_of(k * j, rest, x);
                set_pair(m, table, k * (radix - 1) + j - 1, x);
            }
        }
        plan->passes[i] =
            (cpu_fft_pass){.groups = groups, .stride = stride, .radix = radix, .twiddles = table};
        rest = groups;
        stride *= radix;
    }
    return true;
}

/* The rows of the matrix: the divisor of n for which the groups of rows and of columns have the fewest idle
 * lanes, and that is nearest to the square root. */
static int64_t rows_of_split(int64_t n, int64_t lanes)
{
    int64_t best = 1;
    double least = INFINITY;
    for (int64_t d = 1; d * d <= n; d++) {
        int64_t e = n / d;
        double idle = (double)round_up(d, lanes) / (double)d + (double)round_up(e, lanes) / (double)e;
        if (n % d) continue;
        idle += 0.05 * log2((double)e / (double)d);
        if (idle <= least) {
            least = idle;
            best = d;
        }
    }
    return best;
}

static bool make_split(const maker *m, cpu_fft_plan *plan)
{
    int64_t n = plan->n, lanes = m->kernels->lanes, rows = rows_of_split(n, lanes), columns = n / rows;
    int64_t groups = ceil_div(columns, lanes);
    bool full = n <= FULL_TWIDDLES;
    void *by_lane = NULL, *by_group = make_table(m, plan, groups * rows * 2 * (full ? lanes : 1));
    double x[2];
    plan->columns = make(m, rows, CPU_FFT_LANES);
    plan->rows = make(m, columns, CPU_FFT_LANES);
    if (!full) by_lane = make_table(m, plan, rows * 2 * lanes);
    if (!plan->columns || !plan->rows || !by_group || (!full && !by_lane)) return false;
    for (int64_t g = 0; g < groups; g++) {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t lane = 0; full && lane < lanes; lane++) {
                turn_of(i * (g * lanes + lane) % n, n, x);
                set_lane(m, by_group, g * rows + i, lane, x);
            }
            if (full) continue;
            turn_of(i * g * lanes % n, n, x);
            set_pair(m, by_group, g * rows + i, x);
        }
    }
    for (int64_t i = 0; !full && i < rows; i++) {
        for (int64_t lane = 0; lane < lanes; lane++) {
            turn_of(i * lane, n, x);
            set_lane(m, by_lane, i, lane, x);
        }
    }
    plan->group_twiddles = by_group;
    plan->lane_twiddles = by_lane;
    return true;
}

/* Transforms a contiguous line of float64 pairs in place. */
static bool transform_line(const cpu_fft_plan *plan, double *line)
{
    const cpu_fft_kernels *kernels = cpu_fft_kernels_of(TN_FLOAT64);
    int64_t n = plan->n, lanes = kernels->lanes;
    int64_t middle = plan->columns ? ceil_div(plan->columns->n, lanes) * plan->rows->n : 0;
    int64_t cells = middle + 2 * (n + 1);
    char *scratch = aligned_alloc(64, (size_t)round_up(cells * kernels->cell_bytes, 64));
    if (!scratch) return false;
    if (plan->columns) {
        cpu_fft_line l = {plan, line, line, scratch, false, 1};
        void *rest = scratch + middle * kernels->cell_bytes;
        kernels->run_columns(&l, rest, 0, ceil_div(plan->rows->n, lanes));
        kernels->run_rows(&l, rest, 0, ceil_div(plan->columns->n, lanes));
    } else {
        cpu_fft_lanes l = {.plan = plan,
                           .n = n,
                           .written = n,
                           .scale = 1,
                           .count = 1,
                           .in_step = 16,
                           .out_step = 16,
                           .in = {(const char *)line},
                           .out = {(char *)line},
                           .scratch = scratch};
        kernels->run_lanes(&l);
    }
    free(scratch);
    return true;
}

/* The transform of the chirp's conjugate, as a signal of the padded length that is the same backwards, in float64. */
static bool make_spectrum(const maker *m, cpu_fft_plan *plan, const double *chirp, cpu_fft_form form)
{
    const maker wide = {.kernels = cpu_fft_kernels_of(TN_FLOAT64), .is_double = true};
    int64_t n = plan->n, length = plan->padded->n;
    void *table = make_table(m, plan, 2 * length);
    double *line = calloc((size_t)length * 2, sizeof *line);
    cpu_fft_plan *own = m->is_double ? NULL : make(&wide, length, form);
    bool made = line && table && (m->is_double || own);
    for (int64_t k = 0; made && k < n; k++) {
        int64_t back = k ? length - k : 0;
        line[2 * k] = line[2 * back] = chirp[2 * k];
        line[2 * k + 1] = line[2 * back + 1] = -chirp[2 * k + 1];
    }
    made = made && transform_line(own ? own : plan->padded, line);
    for (int64_t k = 0; made && k < 2 * length; k++) set_element(m, table, k, line[k] / (double)length);
    plan->spectrum = table;
    destroy(own);
    free(line);
    return made;
}

static bool make_padded(const maker *m, cpu_fft_plan *plan, cpu_fft_form form)
{
    int64_t n = plan->n, square = 0; /* k^2 modulo 2 n */
    void *table = make_table(m, plan, 2 * n);
    double *chirp = malloc((size_t)n * 2 * sizeof *chirp);
    bool made;
    plan->padded = make(m, padded_length(2 * n - 1), form);
    made = table && chirp && plan->padded;
    for (int64_t k = 0; made && k < n; k++) {
        turn_of(square, 2 * n, &chirp[2 * k]);
        set_pair(m, table, k, &chirp[2 * k]);
        square = (square + 2 * k + 1) % (2 * n);
    }
    plan->chirp = table;
    made = made && make_spectrum(m, plan, chirp, form);
    free(chirp);
    return made;
}

static bool make_turns(const maker *m, cpu_fft_plan *plan)
{
    int64_t n = plan->n;
    void *table = make_table(m, plan, 2 * (n / 2 + 1));
    double x[2];
    for (int64_t k = 0; table && k <= n / 2; k++) {
        turn_of(k, 2 * n, x);
        set_pair(m, table, k, x);
    }
    plan->turns = table;
    return table != NULL;
}

static cpu_fft_plan *make(const maker *m, int64_t n, cpu_fft_form form)
{
    const maker part = {.kernels = m->kernels, .is_double = m->is_double};
    cpu_fft_plan *plan = calloc(1, sizeof *plan);
    bool made;
    if (!plan) return NULL;
    plan->n = n;
    made = !is_smooth(n)           ? make_padded(&part, plan, form)
           : form == CPU_FFT_LANES ? make_passes(m, plan)
                                   : make_split(&part, plan);
    if (made && m->has_turns) made = make_turns(m, plan);
    if (made) {
        const cpu_fft_plan *parts[] = {plan->columns, plan->rows, plan->padded};
        plan->bytes += (int64_t)sizeof *plan;
        for (int i = 0; i < 3; i++) plan->bytes += parts[i] ? parts[i]->bytes : 0;
        return plan;
    }
    destroy(plan);
    return NULL;
}

bool cpu_fft_fits_line(int64_t n, tn_dtype dtype)
{
    int64_t lanes = cpu_fft_kernels_of(dtype)->lanes;
    return (is_smooth(n) ? n : padded_length(2 * n - 1)) >= max_i64(lanes * lanes, 128);
}

/* ---- Plans that are kept ----------------------------------------------------------------------------- */

/* A plan with its key. */
typedef struct kept_plan {
    cpu_fft_plan *plan;
    cpu_fft_key key;
    int64_t users;
    uint64_t last_use;
} kept_plan;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kept_plan kept[KEPT_PLANS];
static int64_t kept_bytes;
static uint64_t uses;

static bool is_key(const cpu_fft_key *a, const cpu_fft_key *b)
{
    return a->n == b->n && a->dtype == b->dtype && a->form == b->form && a->has_turns == b->has_turns;
}

static void drop(kept_plan *k)
{
    kept_bytes -= k->plan->bytes;
    destroy(k->plan);
    *k = (kept_plan){.plan = NULL};
}

/* The plan without users that was not used for the longest time; NULL if all have users. */
static kept_plan *oldest(void)
{
    kept_plan *found = NULL;
    for (uint32_t i = 0; i < KEPT_PLANS; i++)
        if (kept[i].plan && kept[i].users == 0 && (!found || kept[i].last_use < found->last_use))
            found = &kept[i];
    return found;
}

static kept_plan *find(const cpu_fft_key *key)
{
    for (uint32_t i = 0; i < KEPT_PLANS; i++)
        if (kept[i].plan && is_key(&kept[i].key, key)) return &kept[i];
    return NULL;
}

/* Keeps a plan with one user if there is room for it. */
static void keep(cpu_fft_plan *plan, const cpu_fft_key *key)
{
    kept_plan *place = NULL, *old;
    if (plan->bytes > KEPT_BYTES) return;
    while (kept_bytes + plan->bytes > KEPT_BYTES && (old = oldest()) != NULL) drop(old);
    if (kept_bytes + plan->bytes > KEPT_BYTES) return;
    for (uint32_t i = 0; i < KEPT_PLANS && !place; i++)
        if (!kept[i].plan) place = &kept[i];
    if (!place && (place = oldest()) != NULL) drop(place);
    if (!place) return;
    *place = (kept_plan){.plan = plan, .key = *key, .users = 1, .last_use = ++uses};
    kept_bytes += plan->bytes;
}

const cpu_fft_plan *cpu_fft_plan_take(const tn_call *call, const cpu_fft_key *key)
{
    const maker m = {.kernels = cpu_fft_kernels_of(key->dtype),
                     .is_double = key->dtype == TN_FLOAT64,
                     .has_turns = key->has_turns};
    cpu_fft_plan *plan = NULL;
    kept_plan *found;
    pthread_mutex_lock(&lock);
    if ((found = find(key)) != NULL) {
        found->users++;
        found->last_use = ++uses;
        plan = found->plan;
    } else if ((plan = make(&m, key->n, key->form)) != NULL) {
        keep(plan, key);
    }
    pthread_mutex_unlock(&lock);
    if (!plan)
        cpu_error(call, TN_E_OUT_OF_MEMORY, "out of memory: plan of a transform of %lld", (long long)key->n);
    return plan;
}

void cpu_fft_plan_give_back(const cpu_fft_plan *plan)
{
    kept_plan *found = NULL;
    if (!plan) return;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < KEPT_PLANS && !found; i++)
        if (kept[i].plan == plan) found = &kept[i];
    if (found) found->users--;
    pthread_mutex_unlock(&lock);
    if (!found) destroy((cpu_fft_plan *)(uintptr_t)plan);
}

/* When the plugin is unloaded. */
__attribute__((destructor)) static void forget(void)
{
    for (uint32_t i = 0; i < KEPT_PLANS; i++)
        if (kept[i].plan) drop(&kept[i]);
}
