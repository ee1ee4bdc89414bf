/* SPDX-License-Identifier: Apache-2.0 */
/* Making, running and printing layers from their rows. */
#include "layers.h"
#include "number_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options ------------------------------------------------------------------------------------------- */

static const void *field(const tn_module *m, const nn_option *o)
{
    return (const char *)m->state + o->offset;
}

int64_t nn_integer(const tn_module *m, uint32_t i)
{
    const nn_option *o = &nn_layer_of(m)->options[i];
    return o->kind == NN_INT ? *(const int64_t *)field(m, o) : (int64_t)nn_number(m, i);
}

double nn_number(const tn_module *m, uint32_t i)
{
    const nn_option *o = &nn_layer_of(m)->options[i];
    const void *at = field(m, o);
    return o->kind == NN_INT    ? (double)*(const int64_t *)at
           : o->kind == NN_BOOL ? *(const int32_t *)at
                                : *(const double *)at;
}

tn_ints nn_list(const tn_module *m, uint32_t i)
{
    return *(const tn_ints *)field(m, &nn_layer_of(m)->options[i]);
}

static const char *text_of(const tn_module *m, uint32_t i)
{
    return *(const char *const *)field(m, &nn_layer_of(m)->options[i]);
}

/* A copy of the list; a list of one item is spread. Behind the last item stands how many were given. NULL data: out of
 * memory, or absent as `from` was. */
static tn_ints copy_list(tn_ints from, uint32_t spread)
{
    int64_t count = spread && from.count == 1 ? spread : from.count;
    int64_t *items = from.data ? malloc(((size_t)count + 1) * sizeof *items) : NULL;
    if (!items) return (tn_ints){NULL, 0};
    for (int64_t i = 0; i < count; i++) items[i] = from.data[from.count == 1 ? 0 : i];
    items[count] = from.count;
    return (tn_ints){items, count};
}

/* The module owns its lists and texts; tensors become buffers of their names. */
static int32_t own_option(tn_module *m, const nn_option *o)
{
    void *at = (char *)m->state + o->offset;
    if (o->kind == NN_TEXT) {
        const char **text = at;
        *text = strdup(*text ? *text : o->text ? o->text : "");
        return *text ? TN_OK : TN_E_OUT_OF_MEMORY;
    }
    if (o->kind == NN_TENSOR) {
        tn_tensor **t = at;
        tn_tensor *given = *t;
        *t = NULL;
        if (given) tn_module_add_buffer(m, o->name, given, 0);
        return m->tree->status;
    }
    if (o->kind != NN_INTS) return TN_OK;
    tn_ints *list = at, from = *list;
    const int64_t one = isnan(o->number) ? 0 : (int64_t)o->number;
    if (!from.data && o->like >= 0) from = nn_list(m, (uint32_t)o->like);
    if (!from.data && !o->is_given && !isnan(o->number)) from = (tn_ints){&one, 1};
    *list = (tn_ints){NULL, 0};
    if (!from.data && !o->is_given) return TN_OK; /* absent */
    if (!from.data || from.count < 1 || (o->spread && from.count != 1 && from.count != o->spread))
        return nn_fail(m, TN_E_ARGUMENT, "%s '%s': %s: got a list of %lld, expected %s%u", m->class->name,
                       m->name, o->name, (long long)from.count, o->spread ? "1 or " : "at least ",
                       o->spread ? o->spread : 1u);
    *list = copy_list(from, o->spread);
    return list->data ? TN_OK : TN_E_OUT_OF_MEMORY;
}

uint32_t nn_option_bytes(const nn_option *o)
{
    static const uint8_t bytes[] = {8, 8, 4, sizeof(char *), sizeof(tn_ints), sizeof(tn_tensor *)};
    return bytes[o->kind];
}

void nn_option_set_default(const nn_option *o, void *field)
{
    if (o->kind == NN_INT) *(int64_t *)field = (int64_t)o->number;
    if (o->kind == NN_FLOAT) *(double *)field = o->number;
    if (o->kind == NN_BOOL) *(int32_t *)field = o->number != 0;
}

/* A program may be older than an option, but it knows all that must be given. One that is newer than this library has set
 * none of what is not known here. */
static int32_t check_size(tn_module *parent, const nn_layer *layer, const nn_options_head *head)
{
    uint32_t least = sizeof *head;
    for (uint32_t i = 0; i < layer->option_count; i++) {
        const nn_option *o = &layer->options[i];
        if (o->is_given) least = o->offset + nn_option_bytes(o);
    }
    if (head->options_size < least || head->options_size > 64 * (layer->class.state_bytes + 64))
        return nn_fail(parent, TN_E_ARGUMENT, "%s: options_size is %u; set it to the size of the options",
                       layer->class.name, head->options_size);
    for (uint32_t i = (uint32_t)layer->class.state_bytes; i < head->options_size; i++) {
        if (((const char *)head)[i])
            return nn_fail(parent, TN_E_UNKNOWN_FIELD,
                           "%s: byte %u of the options is set, but this library knows only the first %u",
                           layer->class.name, i, (uint32_t)layer->class.state_bytes);
    }
    return TN_OK;
}

/* Lists and texts that are not owned yet are set to NULL first, so that a failure in between frees only what is. */
static int32_t own_options(tn_module *m, const void *options)
{
    const nn_layer *layer = nn_layer_of(m);
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < layer->option_count; i++) {
        const nn_option *o = &layer->options[i];
        void *field = (char *)m->state + o->offset;
        memset(field, 0, nn_option_bytes(o));
        if (status) continue;
        if (o->offset + nn_option_bytes(o) > *(const uint32_t *)options)
            nn_option_set_default(o, field); /* a program from before this option */
        else
            memcpy(field, (const char *)options + o->offset, nn_option_bytes(o));
        status = own_option(m, o);
    }
    return status;
}

void nn_layer_finish(tn_module *m)
{
    const nn_layer *layer = nn_layer_of(m);
    for (uint32_t i = 0; i < layer->option_count; i++) {
        const nn_option *o = &layer->options[i];
        void *at = (char *)m->state + o->offset;
        if (o->kind == NN_TEXT) free((void *)(uintptr_t) * (const char **)at);
        if (o->kind == NN_INTS) free((void *)(uintptr_t)((tn_ints *)at)->data);
    }
}

/* ---- Tensors ------------------------------------------------------------------------------------------- */

static int64_t sizes_of(const tn_module *m, const nn_tensor_row *row, int64_t sizes[TN_MAX_RANK])
{
    int64_t rank = 0;
    for (uint32_t i = 0; i < row->dim_count; i++) {
        const nn_dim *d = &row->dims[i];
        tn_ints list = d->spread ? nn_list(m, (uint32_t)d->option) : (tn_ints){NULL, 1};
        for (int64_t k = 0; k < list.count && rank < TN_MAX_RANK; k++) {
            int64_t n = d->spread ? list.data[k] : d->option < 0 ? 1 : nn_integer(m, (uint32_t)d->option);
            int64_t over = d->over < 0 ? 1 : nn_integer(m, (uint32_t)d->over);
            sizes[rank++] = d->factor * n / (over ? over : 1);
        }
    }
    return rank;
}

tn_tensor *nn_add_uniform(tn_scope *s, tn_module *m, const char *name, tn_ints sizes, double bound)
{
    tn_tensor *t = tn_empty(s, sizes);
    return tn_module_add_parameter(m, name, tn_init_uniform(s, t, -bound, bound, NULL));
}

/* `fan`: the elements of one output of the layer's weight; negative before the weight. */
static void add_tensor(tn_scope *s, tn_module *m, const nn_tensor_row *row, double *fan)
{
    int64_t sizes[TN_MAX_RANK], rank = sizes_of(m, row, sizes);
    tn_ints list = {sizes, rank};
    tn_tensor *t = NULL;
    if (row->values == NN_COUNT)
        t = tn_zeros(s, (tn_ints){sizes, 0}, .dtype = TN_INT64);
    else
        t = tn_empty(s, list);
    if (*fan < 0) {
        *fan = 1;
        for (int64_t d = row->values == NN_FAN_FIRST ? rank - 2 : 1;
             d < (row->values == NN_FAN_FIRST ? rank - 1 : rank); d++)
            *fan *= (double)sizes[d];
    }
    double bound = *fan > 0 ? 1 / sqrt(*fan) : 0;
    switch (row->values) {
    case NN_ONES:
        tn_init_constant(s, t, 1);
        break;
    case NN_FAN_IN:
    case NN_FAN_FIRST:
        tn_init_uniform(s, t, -bound, bound, NULL);
        break;
    case NN_NORMAL:
        tn_init_normal(s, t, 0, 1, NULL);
        break;
    case NN_OPTION:
        tn_init_constant(s, t, nn_number(m, (uint32_t)row->value_option));
        break;
    case NN_ZEROS:
        tn_init_constant(s, t, 0);
        break;
    default:
        break;
    }
    if (tn_scope_failed(s)) return;
    if (row->is_buffer)
        tn_module_add_buffer(m, row->name, t, 0);
    else
        tn_module_add_parameter(m, row->name, t);
}

static void add_tensors(tn_scope *s, tn_module *m)
{
    const nn_layer *layer = nn_layer_of(m);
    double fan = -1;
    for (uint32_t i = 0; i < layer->tensor_count && !tn_scope_failed(s) && !m->tree->status; i++) {
        const nn_tensor_row *row = &layer->tensors[i];
        int32_t is_there = 1;
        for (uint32_t k = 0; k < 2; k++)
            if (row->if_option[k] >= 0) is_there &= nn_number(m, (uint32_t)row->if_option[k]) != 0;
        if (is_there)
            add_tensor(s, m, row, &fan);
        else if (row->is_buffer)
            tn_module_add_buffer(m, row->name, NULL, 0);
        else
            tn_module_add_parameter(m, row->name, NULL);
    }
}

/* ---- Making -------------------------------------------------------------------------------------------- */

/* Options that are one of a few words. `layer` is the start of the names of the layers whose option it is. */
static const char *expected_word(const char *layer, const char *option, const char *text)
{
    static const struct {
        const char *layer, *option, *words, *expected;
    } rows[] = {
        {"GELU", "approximate", " none tanh ", "'none' or 'tanh'"},
        {"ConvTranspose", "padding_mode", " zeros ", "'zeros', the only one of transposed convolutions"},
        {"Conv", "padding_mode", " zeros reflect replicate circular ",
         "'zeros', 'reflect', 'replicate' or 'circular'"},
        {"Upsample", "mode", " nearest nearest-exact linear bilinear bicubic trilinear ",
         "'nearest', 'nearest-exact', 'linear', 'bilinear', 'bicubic' or 'trilinear'"},
        {"EmbeddingBag", "mode", " mean sum max ", "'mean', 'sum' or 'max'"},
        {"KLDivLoss", "reduction", " none mean sum batchmean ", "'mean', 'sum', 'batchmean' or 'none'"},
        {"", "reduction", " none mean sum ", "'mean', 'sum' or 'none'"}};
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(layer, rows[i].layer, strlen(rows[i].layer)) || strcmp(option, rows[i].option)) continue;
        char word[32];
        snprintf(word, sizeof word, " %.28s ", text);
        return strchr(text, ' ') || !strstr(rows[i].words, word) ? rows[i].expected : NULL;
    }
    return NULL;
}

/* What option i should have been, or NULL: values that PyTorch refuses when the layer is made. */
static const char *expected_of(const tn_module *m, uint32_t i)
{
    const nn_option *o = &nn_layer_of(m)->options[i];
    const char *layer = m->class->name;
    const double value = o->kind <= NN_BOOL ? nn_number(m, i) : 0;
    const int32_t is_probability =
        !strcmp(o->name, "dropout") || (!strcmp(o->name, "p") && strstr(layer, "Dropout"));
    if (o->kind == NN_FLOAT && is_probability && !(value >= 0 && value <= 1))
        return "a probability from 0 to 1";
    if (o->kind == NN_TEXT) return expected_word(layer, o->name, text_of(m, i));
    if (!strcmp(o->name, "hidden_size") && value < 1) return "at least 1";
    if (!strcmp(o->name, "sparse") && value != 0) return "0: gradients are not sparse";
    if (strcmp(o->name, "output_ratio") != 0) return NULL;
    if ((nn_list(m, i - 1).data != NULL) == (value != 0)) return "either output_size or output_ratio";
    return value == 0 || (value > 0 && value < 1) ? NULL : "a share between 0 and 1";
}

static int32_t check_options(tn_module *m)
{
    const nn_layer *layer = nn_layer_of(m);
    for (uint32_t i = 0; i < layer->option_count; i++) {
        const nn_option *o = &layer->options[i];
        const char *expected = expected_of(m, i);
        char path[512], got[64];
        if (!expected) continue;
        if (o->kind == NN_TEXT)
            snprintf(got, sizeof got, "'%.40s'", text_of(m, i));
        else
            plain_snprintf(got, sizeof got, "%g", nn_number(m, i));
        return nn_fail(m, TN_E_ARGUMENT, "%s '%s': %s: got %s, expected %s", m->class->name,
                       nn_label(m, path, sizeof path), o->name, got, expected);
    }
    return TN_OK;
}

/* Sizes and counts among the arguments must not be negative, and the groups divide both channels. */
static int32_t check(tn_module *m)
{
    const nn_layer *layer = nn_layer_of(m);
    int64_t groups = layer->check_option < 0 ? 1 : nn_integer(m, (uint32_t)layer->check_option);
    if (groups < 1)
        return nn_fail(m, TN_E_ARGUMENT, "%s '%s': groups: got %lld, expected at least 1", m->class->name,
                       m->name, (long long)groups);
    for (uint32_t i = 0; i < layer->option_count; i++) {
        const nn_option *o = &layer->options[i];
        if (!o->is_given || o->kind != NN_INT || !strcmp(o->name, "dim")) continue;
        int64_t value = nn_integer(m, i);
        if (m->is_lazy && i == 0) continue;
        if (value < 0)
            return nn_fail(m, TN_E_ARGUMENT, "%s '%s': %s: got %lld, expected 0 or more", m->class->name,
                           m->name, o->name, (long long)value);
        if (layer->check_option >= 0 && value % groups)
            return nn_fail(m, TN_E_ARGUMENT, "%s '%s': %s: got %lld, which %lld groups do not divide",
                           m->class->name, m->name, o->name, (long long)value, (long long)groups);
    }
    return check_options(m);
}

/* Linear layers, convolutions, and norms over channels: their first argument is a size of the input. */
static int32_t can_be_lazy(const nn_layer *layer)
{
    static const char *const names[] = {"Linear", "Conv", "BatchNorm", "InstanceNorm"};
    for (uint32_t i = 0; i < 4; i++)
        if (!strncmp(layer->class.name, names[i], strlen(names[i]))) return 1;
    return 0;
}

/* Makes the tensors. */
static void fill(tn_module *m)
{
    const nn_layer *layer = nn_layer_of(m);
    tn_scope *s = nn_scope(m);
    if (!s) {
        nn_no_scope(m);
        return;
    }
    add_tensors(s, m);
    if (layer->init && !tn_scope_failed(s) && !m->tree->status) layer->init(s, m);
    nn_scope_close(m, s);
}

tn_module *nn_layer_create(tn_module *parent, const nn_layer *layer, const void *options)
{
    const nn_options_head *head = options;
    if (!head) return tn_module_fail(parent, TN_E_ARGUMENT, "the options of a layer are NULL"), NULL;
    if (parent && check_size(parent, layer, head)) return NULL;
    tn_module *m = tn_module_add(parent, head->name, &layer->class);
    if (!m) return NULL;
    tn_module *const first = m->tree->first_added;
    int32_t status = own_options(m, options);
    m->is_lazy = !status && can_be_lazy(layer) && nn_integer(m, 0) == TN_LAZY;
    if (!status) status = check(m);
    if (status) tn_module_fail(m, status, NULL);
    if (!status && !m->is_lazy) fill(m);
    if (!m->tree->status) return m;
    tn_module_undo_add(first);
    return NULL;
}

/* Channels stand before the dimensions that a layer works in; the features of Linear last, of batch norms second. */
int32_t nn_materialize(tn_scope *s, tn_module *m, tn_tensors in)
{
    const nn_layer *layer = nn_layer_of(m);
    const int64_t rank = tn_tensor_rank(in.data[0]);
    const int32_t is_batch_norm = !strncmp(layer->class.name, "BatchNorm", 9);
    const int64_t dim = !layer->rank ? rank - 1 : is_batch_norm ? 1 : rank - layer->rank - 1;
    if (dim < 0 || dim >= rank)
        return tn_scope_fail(s, TN_E_SHAPE, "a lazy layer got an input of too few dimensions");
    const uint32_t own = m->slot_count; /* options that are tensors */
    int64_t *size = (int64_t *)((char *)m->state + layer->options[0].offset);
    *size = tn_tensor_size(in.data[0], dim);
    m->is_lazy = 0;
    if (!check(m)) fill(m);
    m->tree->generation++;
    if (!m->tree->status) return TN_OK;
    while (m->slot_count > own) nn_remove_slot(m, m->slots[m->slot_count - 1].name);
    *size = TN_LAZY;
    m->is_lazy = 1;
    return tn_scope_fail(s, m->tree->status, tn_module_error(m));
}

/* ---- Running ------------------------------------------------------------------------------------------- */

int64_t nn_reduction(tn_scope *s, const char *text)
{
    static const char *const names[] = {"none", "mean", "sum"};
    for (int64_t i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) return i;
    char message[160];
    snprintf(message, sizeof message, "reduction: got '%.60s', expected 'mean', 'sum' or 'none'", text);
    tn_scope_fail(s, TN_E_ARGUMENT, message);
    return 1;
}

int32_t nn_refuse_inputs(tn_scope *s, const tn_module *m, tn_tensors in, int64_t most)
{
    char text[128];
    if (in.count <= most) return TN_OK;
    snprintf(text, sizeof text, "%s: got %lld inputs, expected at most %lld", tn_module_class_name(m),
             (long long)in.count, (long long)most);
    return tn_scope_fail(s, TN_E_ARGUMENT, text);
}

static tn_value option_value(const tn_module *m, uint32_t i)
{
    const nn_option *o = &nn_layer_of(m)->options[i];
    switch (o->kind) {
    case NN_INT:
        return tn_value_int(nn_integer(m, i));
    case NN_FLOAT:
        return tn_value_float(nn_number(m, i));
    case NN_BOOL:
        return tn_value_bool(nn_number(m, i) != 0);
    case NN_TEXT:
        return tn_value_string(text_of(m, i));
    case NN_INTS:
        return tn_value_ints(nn_list(m, i).data, nn_list(m, i).count);
    default:
        return tn_value_tensor(tn_module_tensor(m, o->name));
    }
}

static tn_value argument_value(tn_scope *s, const tn_module *m, const nn_argument *a, tn_tensors in)
{
    switch (a->kind) {
    case NN_INPUT:
        return tn_value_tensor(nn_input(in, a->index));
    case NN_TENSOR_OF:
        return tn_value_tensor(tn_module_own(m, a->index));
    case NN_OPTION_OF:
        return option_value(m, a->index);
    case NN_OPTION_OR_NONE:
        return nn_number(m, a->index) == 0 ? tn_value_none() : option_value(m, a->index);
    case NN_REDUCTION:
        return tn_value_int(nn_reduction(s, text_of(m, a->index)));
    case NN_TRAINING:
        return tn_value_bool(m->is_training);
    case NN_NUMBER:
        return a->number == floor(a->number) ? tn_value_int((int64_t)a->number) : tn_value_float(a->number);
    case NN_BOOLEAN:
        return tn_value_bool(a->number != 0);
    case NN_LITERAL:
        return tn_value_string(a->text);
    default:
        return tn_value_none();
    }
}

tn_tensor *nn_layer_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const nn_layer *layer = nn_layer_of(m);
    if (layer->forward)
        return nn_refuse_inputs(s, m, in, layer->inputs) ? NULL : layer->forward(s, m, in, more);
    tn_value args[16], out[2] = {tn_value_none(), tn_value_none()};
    int64_t taken = 1;
    for (uint32_t i = 0; i < layer->argument_count; i++) {
        args[i] = argument_value(s, m, &layer->arguments[i], in);
        if (layer->arguments[i].kind == NN_INPUT && layer->arguments[i].index >= taken)
            taken = layer->arguments[i].index + 1;
    }
    if (nn_refuse_inputs(s, m, in, taken)) return NULL;
    int32_t several = layer->also_option >= 0 && nn_number(m, (uint32_t)layer->also_option) != 0;
    uint32_t results = several ? 2 : layer->results;
    tn_scope_call(s, several ? layer->op_also : layer->op, args, layer->argument_count, out, results);
    if (results > 1) more[0] = tn_value_as_tensor(out[1]);
    return tn_value_as_tensor(out[0]);
}

/* ---- Printing, as Python prints values ----------------------------------------------------------------- */

/* The fewest digits that give the number back; with an exponent from 1e16 up and below 1e-4. */
static void print_float(double v, char *text, uint64_t bytes)
{
    int digits = 1;
    for (; digits < 17; digits++) {
        plain_snprintf(text, bytes, "%.*g", digits, v);
        if (plain_strtod(text, NULL) == v) break;
    }
    double size = fabs(v);
    if (size >= 1e-4 && size < 1e16) {
        int decimals = digits - 1 - (int)floor(log10(size));
        plain_snprintf(text, bytes, "%.*f", decimals > 0 ? decimals : 0, v);
    }
    if (!strpbrk(text, ".en")) snprintf(text + strlen(text), bytes - strlen(text), ".0");
}

static void print_list(tn_ints list, int32_t is_tuple, char *text, uint64_t bytes)
{
    if (list.data && list.data[list.count] == 1 && !is_tuple) list.count = 1;
    is_tuple |= list.count != 1;
    uint64_t n = (uint64_t)snprintf(text, bytes, "%s", !list.data ? "None" : is_tuple ? "(" : "");
    for (int64_t k = 0; k < list.count && n < bytes; k++)
        n += list.data[k] == TN_NONE
                 ? (uint64_t)snprintf(text + n, bytes - n, "%sNone", k ? ", " : "")
                 : (uint64_t)snprintf(text + n, bytes - n, "%s%lld", k ? ", " : "", (long long)list.data[k]);
    if (list.data && is_tuple && n < bytes) snprintf(text + n, bytes - n, list.count == 1 ? ",)" : ")");
}

static void print_value(const tn_module *m, const nn_shown *shown, char *text, uint64_t bytes)
{
    uint32_t i = shown->option;
    const nn_option *o = &nn_layer_of(m)->options[i];
    const char *quote = shown->how & NN_UNQUOTED ? "" : "'";
    if (shown->how & NN_OR_NONE ? nn_number(m, i) == 0
                                : o->kind == NN_FLOAT && nn_number(m, i) == (double)TN_NONE)
        snprintf(text, bytes, "None");
    else if (o->kind == NN_INT && i == 0 && m->is_lazy)
        snprintf(text, bytes, "lazy");
    else if (o->kind == NN_INT)
        snprintf(text, bytes, "%lld", (long long)nn_integer(m, i));
    else if (o->kind == NN_BOOL)
        snprintf(text, bytes, "%s", nn_number(m, i) != 0 ? "True" : "False");
    else if (o->kind == NN_FLOAT)
        print_float(nn_number(m, i), text, bytes);
    else if (o->kind == NN_TEXT)
        snprintf(text, bytes, "%s%s%s", quote, text_of(m, i), quote);
    else
        print_list(nn_list(m, i), (shown->how & NN_TUPLE) != 0, text, bytes);
}

static int32_t is_default(const tn_module *m, uint32_t i)
{
    const nn_option *o = &nn_layer_of(m)->options[i];
    if (o->kind == NN_TEXT) return !strcmp(text_of(m, i), o->text ? o->text : "");
    if (o->kind != NN_INTS) return nn_number(m, i) == o->number;
    tn_ints list = nn_list(m, i);
    for (int64_t k = 0; k < list.count; k++)
        if ((double)list.data[k] != o->number) return 0;
    return 1;
}

/* One part of the line; "" if it is not printed. */
static void print_part(const tn_module *m, const nn_shown *shown, char *text, uint64_t bytes)
{
    char value[256];
    const char *name = shown->how & (NN_IF_TRUE | NN_IS_THERE | NN_ALWAYS)
                           ? shown->words
                           : nn_layer_of(m)->options[shown->option].name;
    text[0] = 0;
    if (shown->how & NN_IS_THERE) {
        snprintf(text, bytes, "%s=%s", name, tn_module_tensor(m, name) ? "True" : "False");
    } else if (shown->how & NN_ALWAYS) {
        snprintf(text, bytes, "%s", name);
    } else if (shown->how & NN_IF_TRUE) {
        if (nn_number(m, shown->option) != 0) snprintf(text, bytes, "%s", name);
    } else if (!(shown->how & NN_IF_CHANGED) || !is_default(m, shown->option)) {
        print_value(m, shown, value, sizeof value);
        snprintf(text, bytes, "%s%s%s", shown->how & NN_PLAIN ? "" : name, shown->how & NN_PLAIN ? "" : "=",
                 value);
    }
}

void nn_layer_describe(const tn_module *m, char *text, uint64_t bytes)
{
    const nn_layer *layer = nn_layer_of(m);
    uint64_t n = 0;
    for (uint32_t i = 0; i < layer->shown_count && n < bytes; i++) {
        char part[320];
        print_part(m, &layer->shown[i], part, sizeof part);
        if (part[0]) n += (uint64_t)snprintf(text + n, bytes - n, "%s%s", n ? ", " : "", part);
    }
}
