/* SPDX-License-Identifier: Apache-2.0 */
#include "similar.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <tenon/inspect.h>
#include <tenon/op.h>
#include "c_calls.h"

#define LONGEST 64 /* longer names are compared up to here */

/* Ranks: the smaller the better. */
enum { SAME, SAME_FUNCTION, WHOLE_WORDS_FIRST, FIRST_LETTERS, WHOLE_WORDS_INSIDE, INSIDE, NOT_SIMILAR };

/* Names in Python, NumPy and elsewhere for functions to which ATen gives another name. */
static const struct {
    const char *known, *name;
} aliases[] = {
    {"adaptive_pool", "adaptive_avg_pool2d"},
    {"astype", "to"},
    {"attention", "scaled_dot_product_attention"},
    {"bce", "binary_cross_entropy"},
    {"bce_with_logits", "binary_cross_entropy_with_logits"},
    {"cast", "to"},
    {"cross_entropy", "cross_entropy_loss"},
    {"dense", "linear"},
    {"expand_dims", "unsqueeze"},
    {"interpolate", "upsample_bilinear2d"},
    {"interpolate", "upsample_nearest2d"},
    {"minus", "sub"},
    {"plus", "add"},
    {"power", "pow_tensor_scalar"},
    {"reduce_sum", "sum"},
    {"resize", "upsample_bilinear2d"},
    {"sdpa", "scaled_dot_product_attention"},
    {"times", "mul"},
};

/* Letters in lower case, without namespace and "tn_", '_' for '.'; ends before '('. */
static uint32_t spell(const char *name, char out[LONGEST + 1])
{
    const char *colon = strstr(name, "::");
    uint32_t n = 0;
    if (colon) name = colon + 2;
    if (strncmp(name, "tn_", 3) == 0) name += 3;
    for (; name[n] && name[n] != '(' && n < LONGEST; n++)
        out[n] = name[n] == '.' ? '_' : (char)tolower((unsigned char)name[n]);
    out[n] = 0;
    return n;
}

static uint32_t rank_of(const char *wish, uint32_t length, const char *name)
{
    char spelled[LONGEST + 1];
    spell(name, spelled);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (strcmp(aliases[i].known, wish) == 0 && strcmp(aliases[i].name, spelled) == 0)
            return SAME_FUNCTION;
    }
    if (strcmp(spelled, wish) == 0) return SAME;
    const char *at = length > 1 ? strstr(spelled, wish) : NULL;
    if (!at) return NOT_SIMILAR;
    int whole = !isalpha((unsigned char)at[length]);
    if (at == spelled) return whole ? WHOLE_WORDS_FIRST : FIRST_LETTERS;
    return whole && at[-1] == '_' ? WHOLE_WORDS_INSIDE : INSIDE;
}

/* 1 for the forms beside an operator, which its own call shows too. */
static int is_side_form(const tn_operator_info *op)
{
    return strcmp(op->form, "functional") != 0 || strncmp(op->name, "prim::", 6) == 0 ||
           strstr(op->name, "::_") || strstr(op->name, "_backward") || strstr(op->name, "_forward");
}

static int is_better(const cmd_similar *a, const cmd_similar *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->length < b->length;
}

/* For a mistyped name the library's error has suggestions: "...; did you mean aten::add.Tensor, aten::sub.Tensor?" */
static uint32_t take_suggestions(tn_context *ctx, const char *wish, cmd_similar out[CMD_MAX_SIMILAR])
{
    static const char before[] = "; did you mean ";
    char names[512] = "";
    uint32_t count = 0;
    tn_clear_error();
    tn_operator_find(ctx, wish);
    const char *at = tn_last_error() ? strstr(tn_last_error()->message, before) : NULL;
    if (at) snprintf(names, sizeof names, "%s", at + strlen(before));
    for (char *rest = names, *name; count < CMD_MAX_SIMILAR && (name = strtok_r(rest, ", ?", &rest));) {
        tn_operator_info op = {.size = sizeof(op)};
        const cmd_c_call *c = cmd_c_calls;
        uint32_t number = tn_operator_find(ctx, name);
        while (c->number && c->number != number) c++;
        if (!c->number || tn_inspect_operator_by_number(ctx, number, &op) != TN_OK || is_side_form(&op))
            continue;
        out[count] = (cmd_similar){.c_name = c->name};
        snprintf(out[count++].name, sizeof out->name, "%s", name);
    }
    return count;
}

uint32_t cmd_find_similar(tn_context *ctx, const char *wish, cmd_similar out[CMD_MAX_SIMILAR])
{
    char spelled[LONGEST + 1];
    uint32_t length = spell(wish, spelled), count = 0;
    for (const cmd_c_call *c = cmd_c_calls; c->number; c++) {
        tn_operator_info op = {.size = sizeof(op)};
        if (tn_inspect_operator_by_number(ctx, c->number, &op) != TN_OK) continue;
        uint32_t rank = rank_of(spelled, length, c->name), other = rank_of(spelled, length, op.name);
        cmd_similar s = {
            .rank = rank < other ? rank : other, .length = (uint32_t)strlen(c->name), .c_name = c->name};
        uint32_t i = count;
        if (s.rank == NOT_SIMILAR || (s.rank != SAME && is_side_form(&op))) continue;
        snprintf(s.name, sizeof s.name, "%.*s", (int)strcspn(op.name, "("), op.name);
        if (i == CMD_MAX_SIMILAR && !is_better(&s, &out[--i])) continue;
        for (; i > 0 && is_better(&s, &out[i - 1]); i--) out[i] = out[i - 1];
        out[i] = s;
        count += count < CMD_MAX_SIMILAR;
    }
    return count ? count : take_suggestions(ctx, wish, out);
}
