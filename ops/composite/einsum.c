/* SPDX-License-Identifier: Apache-2.0 */
/*
 * einsum: the equation labels each dimension. Operands are permuted to one order of labels, output labels
 * first, and multiplied pair by pair; each label is summed as soon as no later operand has it.
 */
#include <string.h>
#include "ops/composite/contraction.h"

#define LABELS   52 /* A-Z, a-z */
#define ELLIPSIS 52

/* One term of the equation: its labels in order; ELLIPSIS stands for the dimensions it covers. */
typedef struct einsum_term {
    int8_t labels[TN_MAX_RANK + 1];
    int64_t count;
    int32_t has_ellipsis;
} einsum_term;

typedef struct einsum_plan {
    int64_t n_terms;
    einsum_term *terms;
    einsum_term output;
    int32_t explicit_output;
    int64_t uses[LABELS];      /* how often a label occurs on the left side */
    int64_t last[LABELS];      /* last operand with it */
    int64_t place[LABELS];     /* dimension in the common order, -1: not used */
    int64_t ellipsis;          /* dimensions that the longest ellipsis covers */
    int64_t ellipsis_place;    /* first of them in the common order */
    int64_t n_output, n_total; /* dimensions of the output, and of the common order */
} einsum_plan;

static int32_t label_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    return -1;
}
static char letter_of(int32_t label)
{
    return (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}

/* ---- parsing ---- */

static int32_t add_label(tn_scope *s, einsum_term *term, int32_t label)
{
    if (term->count > TN_MAX_RANK) return tn_scope_fail(s, TN_E_SYNTAX, "einsum(): too many subscripts");
    term->labels[term->count++] = (int8_t)label;
    return TN_OK;
}

static int32_t add_ellipsis(tn_scope *s, einsum_term *term, const char **at, const char *whose)
{
    if (term->has_ellipsis || strncmp(*at, "...", 3))
        return tni_scope_failf(
            s, TN_E_SYNTAX,
            "einsum(): found '.' for %s that is not part of any ellipsis, or a second ellipsis", whose);
    *at += 2;
    term->has_ellipsis = 1;
    return add_label(s, term, ELLIPSIS);
}

static int32_t parse_inputs(tn_scope *s, einsum_plan *p, const char *at, const char *end)
{
    const char *start = at;
    int64_t term = 0;
    for (; at < end; at++) {
        int32_t status = TN_OK;
        if (*at == ' ') continue;
        if (*at == ',') {
            if (++term >= p->n_terms)
                return tn_scope_fail(s, TN_E_SYNTAX,
                                     "einsum(): fewer operands were provided than specified in the equation");
        } else if (*at == '.') {
            status = add_ellipsis(s, &p->terms[term], &at, "an operand");
        } else if (label_of(*at) >= 0) {
            status = add_label(s, &p->terms[term], label_of(*at));
            p->uses[label_of(*at)]++;
        } else {
            return tni_scope_failf(s, TN_E_SYNTAX,
                                   "einsum(): invalid subscript given at index %lld in the equation string, "
                                   "subscripts must be in [a-zA-Z]",
                                   (long long)(at - start));
        }
        if (status) return status;
    }
    if (term + 1 != p->n_terms)
        return tn_scope_fail(s, TN_E_SYNTAX,
                             "einsum(): more operands were provided than specified in the equation");
    return TN_OK;
}

static int32_t parse_output(tn_scope *s, einsum_plan *p, const char *at)
{
    p->explicit_output = 1;
    for (; *at; at++) {
        int32_t label = label_of(*at), status;
        if (*at == ' ') continue;
        if (*at != '.' && label < 0)
            return tni_scope_failf(
                s, TN_E_SYNTAX,
                "einsum(): invalid subscript '%c' in the output, subscripts must be in [a-zA-Z]", *at);
        if (*at != '.' && !p->uses[label])
            return tni_scope_failf(
                s, TN_E_SYNTAX,
                "einsum(): output subscript %c does not appear in the equation for any input "
                "operand",
                *at);
        for (int64_t i = 0; *at != '.' && i < p->output.count; i++) {
            if (p->output.labels[i] == label)
                return tni_scope_failf(s, TN_E_SYNTAX,
                                       "einsum(): output subscript %c appears more than once in the output",
                                       *at);
        }
        status =
            *at == '.' ? add_ellipsis(s, &p->output, &at, "the output") : add_label(s, &p->output, label);
        if (status) return status;
    }
    return TN_OK;
}

/* Without "->": the ellipsis, then the labels that occur once, in alphabetical order. */
static void imply_output(einsum_plan *p)
{
    p->output.has_ellipsis = 1;
    p->output.labels[p->output.count++] = ELLIPSIS;
    for (int32_t label = 0; label < LABELS; label++) {
        if (p->uses[label] == 1 && p->output.count <= TN_MAX_RANK)
            p->output.labels[p->output.count++] = (int8_t)label;
    }
}

static int32_t parse(tn_scope *s, einsum_plan *p, const char *equation)
{
    const char *arrow = strstr(equation, "->");
    int32_t status = parse_inputs(s, p, equation, arrow ? arrow : equation + strlen(equation));
    if (status) return status;
    if (arrow) return parse_output(s, p, arrow + 2);
    imply_output(p);
    return TN_OK;
}

/* ---- the common order ---- */

static int32_t count_ellipses(tn_scope *s, einsum_plan *p, tn_tensors operands)
{
    for (int64_t i = 0; i < operands.count; i++) {
        const einsum_term *term = &p->terms[i];
        int64_t rank = rank_of(operands.data[i]), covered = rank - (term->count - term->has_ellipsis);
        if (covered < 0 || (covered > 0 && !term->has_ellipsis))
            return tni_scope_failf(
                s, TN_E_SHAPE,
                "einsum(): the number of subscripts in the equation (%lld) %s the number of "
                "dimensions (%lld) for operand %lld%s",
                (long long)(term->count - term->has_ellipsis),
                term->has_ellipsis ? "is more than" : "does not match", (long long)rank, (long long)i,
                term->has_ellipsis ? "" : " and no ellipsis was given");
        if (term->has_ellipsis && covered > p->ellipsis) p->ellipsis = covered;
    }
    return TN_OK;
}

static int32_t order_labels(tn_scope *s, einsum_plan *p)
{
    int64_t at = 0;
    for (int32_t label = 0; label < LABELS; label++) p->place[label] = -1;
    p->ellipsis_place = -1;
    for (int64_t i = 0; i < p->output.count; i++) {
        if (p->output.labels[i] == ELLIPSIS) {
            p->ellipsis_place = at;
            at += p->ellipsis;
        } else {
            p->place[p->output.labels[i]] = at++;
        }
    }
    p->n_output = at;
    if (p->ellipsis_place < 0) {
        p->ellipsis_place = at;
        at += p->ellipsis;
    }
    for (int32_t label = 0; label < LABELS; label++) {
        if (p->uses[label] && p->place[label] < 0) p->place[label] = at++;
    }
    p->n_total = at;
    if (at > TN_MAX_RANK)
        return tni_scope_failf(s, TN_E_SHAPE, "einsum(): %lld dimensions are more than the %d of a tensor",
                               (long long)at, TN_MAX_RANK);
    return TN_OK;
}

/*
 * A label that is repeated in one term is the diagonal of its dimensions, which becomes the last dimension.
 */
static tn_tensor *take_diagonals(tn_scope *s, tn_tensor *t, int8_t *labels, int64_t *count, int64_t *covered)
{
    for (int64_t i = 0; t && i < *count; i++) {
        for (int64_t k = i + 1; t && k < *count; k++) {
            int64_t di = 0, dk = 0;
            int8_t label = labels[i];
            if (labels[k] != label || label == ELLIPSIS) continue;
            for (int64_t j = 0; j < k; j++) {
                if (j < i) di += labels[j] == ELLIPSIS ? *covered : 1;
                dk += labels[j] == ELLIPSIS ? *covered : 1;
            }
            if (tni_sizes(t)[di] != tni_sizes(t)[dk]) {
                tni_scope_failf(
                    s, TN_E_SHAPE,
                    "einsum(): subscript %c is repeated for operand but the sizes don't match, %lld != "
                    "%lld",
                    letter_of(label), (long long)tni_sizes(t)[dk], (long long)tni_sizes(t)[di]);
                return NULL;
            }
            t = tn_movedim(s, tn_diagonal(s, t, .dim1 = di, .dim2 = dk), -1, di);
            memmove(labels + k, labels + k + 1, (size_t)(*count - k - 1));
            *count -= 1;
            k--;
        }
    }
    return t;
}

/* An operand with all dimensions of the common order; missing ones have size 1. */
static tn_tensor *in_order(tn_scope *s, const einsum_plan *p, const einsum_term *term, tn_tensor *t)
{
    int8_t labels[TN_MAX_RANK + 1];
    int64_t count = term->count, covered = rank_of(t) - (term->count - term->has_ellipsis), dim = 0, n = 0;
    int64_t source[TN_MAX_RANK], order[TN_MAX_RANK], sizes[TN_MAX_RANK];
    memcpy(labels, term->labels, sizeof labels);
    t = take_diagonals(s, t, labels, &count, &covered);
    if (!t) return NULL;
    for (int64_t d = 0; d < p->n_total; d++) source[d] = -1;
    for (int64_t i = 0; i < count; i++) {
        if (labels[i] != ELLIPSIS) {
            source[p->place[labels[i]]] = dim++;
            continue;
        }
        for (int64_t k = 0; k < covered; k++) source[p->ellipsis_place + p->ellipsis - covered + k] = dim++;
    }
    for (int64_t d = 0; d < p->n_total; d++) {
        sizes[d] = source[d] < 0 ? 1 : tni_sizes(t)[source[d]];
        if (source[d] >= 0) order[n++] = source[d];
    }
    return tn_reshape(s, tn_permute(s, t, (tn_ints){order, n}), (tn_ints){sizes, p->n_total});
}

static int32_t check_sizes(tn_scope *s, const einsum_plan *p, tn_tensor *const *operands)
{
    for (int64_t d = 0; d < p->n_total; d++) {
        int64_t size = 1;
        for (int64_t i = 0; i < p->n_terms; i++) {
            int64_t here = tni_sizes(operands[i])[d];
            if (here != 1 && size != 1 && here != size)
                return tni_scope_failf(s, TN_E_SHAPE,
                                       "einsum(): operands do not broadcast with remapped shapes "
                                       "[original->remapped]: dimension %lld has sizes %lld and %lld",
                                       (long long)d, (long long)size, (long long)here);
            if (here != 1) size = here;
        }
    }
    return TN_OK;
}

/* ---- contraction ---- */

/* The summed dimensions (bits) of more than one element that no operand but these two has. */
static uint64_t summable(const einsum_plan *p, tn_tensor *const *operands, int64_t count, int64_t a,
                         int64_t b)
{
    uint64_t bits = 0;
    for (int64_t d = p->n_output; d < p->n_total; d++) {
        int32_t stays = tni_sizes(operands[a])[d] == 1 && tni_sizes(operands[b])[d] == 1;
        for (int64_t i = 0; i < count; i++) stays |= i != a && i != b && tni_sizes(operands[i])[d] != 1;
        if (!stays) bits |= UINT64_C(1) << d;
    }
    return bits;
}

static tn_tensor *sum_rest(tn_scope *s, const einsum_plan *p, tn_tensor *t)
{
    tn_ints dims = tni_dims_between(s, p->n_output, p->n_total);
    if (!t || !dims.count) return t;
    for (int64_t d = p->n_output; d < p->n_total; d++) {
        if (tni_sizes(t)[d] != 1) return tn_sum_dim(s, t, dims);
    }
    return tn_squeeze_dims(s, t, dims);
}

/* Sums the dimensions of `sums` that only *t has, and removes them from `sums`. Small integers become int64. */
static void sum_alone(tn_scope *s, tn_tensor **t, const tn_tensor *other, uint64_t *sums)
{
    int64_t dims[TN_MAX_RANK], n = 0;
    if (!*t || !other) return;
    for (int64_t d = 0; d < rank_of(*t); d++) {
        if (!(*sums >> d & 1) || tni_sizes(*t)[d] == 1 || tni_sizes(other)[d] != 1) continue;
        dims[n++] = d;
        *sums &= ~(UINT64_C(1) << d);
    }
    if (n) *t = tn_sum_dim(s, *t, (tn_ints){dims, n}, .keepdim = 1);
}

/* Replaces two operands in `list` by their product, which comes last. */
static int32_t contract_pair(tn_scope *s, const einsum_plan *p, tn_tensor **list, int64_t count, int64_t a,
                             int64_t b)
{
    int64_t n = 0;
    uint64_t sums = summable(p, list, count, a, b);
    tn_tensor *product;
    sum_alone(s, &list[a], list[b], &sums);
    sum_alone(s, &list[b], list[a], &sums);
    if (!list[a] || !list[b]) return tn_scope_failed(s);
    if (sums)
        product = tni_product_summed(s, list[a], list[b], sums, 1);
    else
        product = tn_mul(s, list[a], list[b]);
    for (int64_t i = 0; i < count; i++) {
        if (i != a && i != b) list[n++] = list[i];
    }
    list[n] = product;
    return tn_scope_failed(s);
}

static tn_tensor *contract(tn_scope *s, const einsum_plan *p, tn_tensor **list, tn_ints path)
{
    int64_t count = p->n_terms;
    for (int64_t step = 0; count > 1; step++) {
        int64_t a = 0, b = 1;
        if (path.count) {
            a = path.data[2 * step];
            b = path.data[2 * step + 1];
        }
        if (a < 0 || b < 0 || a >= count || b >= count || a == b) {
            tni_scope_failf(s, TN_E_ARGUMENT, "einsum(): cannot contract operands %lld and %lld",
                            (long long)a, (long long)b);
            return NULL;
        }
        if (!path.count && step > 0) a = count - 1, b = 0; /* the product so far, and the next */
        if (contract_pair(s, p, list, count, a, b)) return NULL;
        count--;
    }
    return sum_rest(s, p, list[0]);
}

void composite_einsum(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors operands = arg_tensors(args, 1);
    tn_ints path = arg_ints(args, 2);
    tn_tensor **list = tni_scope_tensors(s, operands.count);
    einsum_plan p = {.n_terms = operands.count};
    if (!operands.count) {
        tn_scope_fail(s, TN_E_ARGUMENT, "einsum(): must provide at least one operand");
        return;
    }
    if (path.count && path.count != 2 * (operands.count - 1)) {
        tn_scope_fail(s, TN_E_ARGUMENT,
                      "einsum(): expected contraction path given in path parameter to have size twice the "
                      "number of operands less one");
        return;
    }
    p.terms = tn_scope_memory(s, (uint64_t)operands.count * sizeof *p.terms);
    if (!p.terms || !list) return;
    memset(p.terms, 0, (size_t)operands.count * sizeof *p.terms);
    if (parse(s, &p, arg_string(args, 0)) || count_ellipses(s, &p, operands) || order_labels(s, &p)) return;
    for (int64_t i = 0; i < operands.count; i++) {
        list[i] = in_order(s, &p, &p.terms[i], operands.data[i]);
        if (!list[i]) return;
    }
    if (check_sizes(s, &p, list)) return;
    give(outs, 0, contract(s, &p, list, path));
}
