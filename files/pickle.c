/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of pickle.h: a stack of values, marks in it, and a memory of numbered values. */
#include "pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_MEMO (1u << 24)

typedef struct machine {
    pickle *p;
    const uint8_t *at, *end;
    pickle_node **stack, **memo;
    uint32_t depth, stack_room, memo_count, memo_room;
    uint32_t *marks;
    uint32_t n_marks, marks_room;
    int32_t status;
} machine;

/* ---- Failures, memory ---------------------------------------------------------------------------------------- */

static int32_t refuse(machine *m, int32_t status, const char *why, const char *what)
{
    if (!m->status) snprintf(m->p->error, sizeof m->p->error, "%s%.150s%s", why, what, *what ? "'" : "");
    if (!m->status) m->status = status;
    return 0;
}

static int32_t damaged(machine *m)
{
    return refuse(m, TN_E_CORRUPT, "its contents are damaged", "");
}

/* Makes room for one more item of a list that grows by doubling. */
static int32_t grow(machine *m, void **items, uint32_t count, uint32_t *room, size_t bytes)
{
    if (count < *room) return 1;
    uint32_t more = *room ? 2 * *room : 16;
    void *larger = realloc(*items, more * bytes);
    if (!larger) return refuse(m, TN_E_OUT_OF_MEMORY, "out of host memory", "");
    *items = larger;
    *room = more;
    return 1;
}

static pickle_node *new_node(machine *m, pickle_kind kind)
{
    pickle_node *n = calloc(1, sizeof *n);
    if (!n) {
        refuse(m, TN_E_OUT_OF_MEMORY, "out of host memory", "");
        return NULL;
    }
    n->kind = kind;
    n->next = m->p->all;
    m->p->all = n;
    return n;
}

static int32_t add(machine *m, pickle_node *list, pickle_node *item)
{
    if (!item || !grow(m, (void **)&list->items, list->count, &list->room, sizeof *list->items)) return 0;
    list->items[list->count++] = item;
    return 1;
}

static int32_t push(machine *m, pickle_node *n)
{
    if (!n || !grow(m, (void **)&m->stack, m->depth, &m->stack_room, sizeof *m->stack)) return 0;
    m->stack[m->depth++] = n;
    return 1;
}

/* The bottom of what the innermost mark leaves to be taken. */
static uint32_t floor_of(const machine *m)
{
    return m->n_marks ? m->marks[m->n_marks - 1] : 0;
}

static pickle_node *pop(machine *m)
{
    if (m->depth > floor_of(m)) return m->stack[--m->depth];
    damaged(m);
    return NULL;
}

static pickle_node *top(machine *m)
{
    if (m->depth > floor_of(m)) return m->stack[m->depth - 1];
    damaged(m);
    return NULL;
}

/* ---- Reading ------------------------------------------------------------------------------------------------- */

static const uint8_t *take(machine *m, uint64_t bytes)
{
    const uint8_t *at = m->at;
    if ((uint64_t)(m->end - at) < bytes) {
        damaged(m);
        return NULL;
    }
    m->at += bytes;
    return at;
}

/* A little-endian number of 1 to 8 bytes, sign-extended if it is signed. */
static int64_t number(machine *m, uint32_t bytes, int32_t is_signed)
{
    const uint8_t *at = take(m, bytes);
    uint64_t n = 0;
    if (!at) return 0;
    for (uint32_t i = 0; i < bytes; i++) n |= (uint64_t)at[i] << 8 * i;
    if (is_signed && bytes && bytes < 8 && at[bytes - 1] & 0x80) n |= ~(uint64_t)0 << 8 * bytes;
    return (int64_t)n;
}

static pickle_node *text_node(machine *m, pickle_kind kind, const uint8_t *bytes, uint64_t size)
{
    pickle_node *n = bytes ? new_node(m, kind) : NULL;
    if (!n) return NULL;
    if (memchr(bytes, 0, size)) {
        damaged(m);
        return NULL;
    }
    n->text = malloc(size + 1);
    if (!n->text) {
        refuse(m, TN_E_OUT_OF_MEMORY, "out of host memory", "");
        return NULL;
    }
    memcpy(n->text, bytes, size);
    n->text[size] = 0;
    return n;
}

static int32_t push_text(machine *m, uint32_t length_bytes)
{
    uint64_t size = (uint64_t)number(m, length_bytes, 0);
    return push(m, text_node(m, PICKLE_TEXT, m->status ? NULL : take(m, size), size));
}

static int32_t push_int(machine *m, pickle_kind kind, int64_t value)
{
    pickle_node *n = new_node(m, kind);
    if (n) n->i = value;
    return push(m, n);
}

static int32_t push_bool(machine *m, uint32_t value)
{
    return push_int(m, PICKLE_BOOL, value);
}

static int32_t push_unsigned(machine *m, uint32_t bytes)
{
    return push_int(m, PICKLE_INT, number(m, bytes, 0));
}

static int32_t push_signed(machine *m, uint32_t bytes)
{
    return push_int(m, PICKLE_INT, number(m, bytes, 1));
}

/* Of Python's whole numbers those that fit. */
static int32_t push_long(machine *m, uint32_t length_bytes)
{
    uint64_t bytes = (uint64_t)number(m, length_bytes, 0);
    if (bytes > 8) return refuse(m, TN_E_UNSUPPORTED, "it has a whole number of more than 64 bits", "");
    return push_signed(m, (uint32_t)bytes);
}

static int32_t push_float(machine *m, uint32_t bytes)
{
    const uint8_t *at = take(m, bytes);
    uint64_t bits = 0;
    pickle_node *n = at ? new_node(m, PICKLE_FLOAT) : NULL;
    if (!n) return 0;
    for (uint32_t i = 0; i < bytes; i++) bits = bits << 8 | at[i];
    memcpy(&n->f, &bits, sizeof n->f);
    return push(m, n);
}

/* ---- Classes and functions ------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *storage;
    tn_dtype dtype;
} dtypes[] = {
    {"float64", "DoubleStorage", TN_FLOAT64},
    {"float32", "FloatStorage", TN_FLOAT32},
    {"float16", "HalfStorage", TN_FLOAT16},
    {"bfloat16", "BFloat16Storage", TN_BFLOAT16},
    {"int64", "LongStorage", TN_INT64},
    {"int32", "IntStorage", TN_INT32},
    {"int16", "ShortStorage", TN_INT16},
    {"int8", "CharStorage", TN_INT8},
    {"uint8", "ByteStorage", TN_UINT8},
    {"bool", "BoolStorage", TN_BOOL},
    {"complex64", "ComplexFloatStorage", TN_COMPLEX64},
    {"complex128", "ComplexDoubleStorage", TN_COMPLEX128},
    {"complex32", NULL, TN_COMPLEX32},
    {"uint16", NULL, TN_UINT16},
    {"uint32", NULL, TN_UINT32},
    {"uint64", NULL, TN_UINT64},
    {"float8_e4m3fn", NULL, TN_FLOAT8_E4M3FN},
    {"float8_e5m2", NULL, TN_FLOAT8_E5M2},
    {"float8_e4m3fnuz", NULL, TN_FLOAT8_E4M3FNUZ},
    {"float8_e5m2fnuz", NULL, TN_FLOAT8_E5M2FNUZ},
};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

const char *pickle_storage_name(tn_dtype dtype)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].storage;
    return NULL;
}

const char *pickle_dtype_name(tn_dtype dtype)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].name;
    return NULL;
}

/* The dtype of "torch FloatStorage" or "torch float32"; 0 for other names. */
static tn_dtype dtype_of(const char *name)
{
    if (strncmp(name, "torch ", 6) != 0) return 0;
    for (size_t i = 0; i < DTYPES; i++)
        if (!strcmp(name + 6, dtypes[i].name) || (dtypes[i].storage && !strcmp(name + 6, dtypes[i].storage)))
            return dtypes[i].dtype;
    return 0;
}

#define REBUILD "torch._utils _rebuild_"
#define UNTYPED "torch.storage UntypedStorage"
static const char *const known[] = {"collections OrderedDict",
                                    REBUILD "tensor_v2",
                                    REBUILD "tensor_v3",
                                    REBUILD "parameter",
                                    "torch Size",
                                    "torch device",
                                    UNTYPED};

static int32_t push_known(machine *m, const char *name)
{
    size_t i = 0;
    while (i < sizeof known / sizeof *known && strcmp(known[i], name) != 0) i++;
    if (i == sizeof known / sizeof *known && !dtype_of(name))
        return refuse(
            m, TN_E_UNSUPPORTED,
            "it holds more than tensors, numbers, texts, lists and dictionaries (save a state_dict): '",
            name);
    return push(m, text_node(m, PICKLE_GLOBAL, (const uint8_t *)name, strlen(name)));
}

/* Two lines: module and name. */
static int32_t push_global(machine *m, uint32_t unused)
{
    char name[160];
    const uint8_t *begin = m->at, *line = memchr(begin, '\n', (size_t)(m->end - begin));
    const uint8_t *second = line ? memchr(line + 1, '\n', (size_t)(m->end - line - 1)) : NULL;
    if (!second) return damaged(m);
    m->at = second + 1;
    snprintf(name, sizeof name, "%.*s %.*s", (int)(line - begin), (const char *)begin,
             (int)(second - line - 1), (const char *)line + 1);
    return push_known(m, name);
}

/* The same from two texts on the stack. */
static int32_t push_stack_global(machine *m, uint32_t unused)
{
    char text[160];
    const pickle_node *name = pop(m), *module = m->status ? NULL : pop(m);
    if (!module || name->kind != PICKLE_TEXT || module->kind != PICKLE_TEXT) return damaged(m);
    snprintf(text, sizeof text, "%s %s", module->text, name->text);
    return push_known(m, text);
}

static int32_t is_list_of(const pickle_node *n, uint32_t least)
{
    return n && n->kind == PICKLE_LIST && n->count >= least;
}

/* ("storage", class, key, location, elements) */
static int32_t push_storage(machine *m, uint32_t unused)
{
    const pickle_node *id = pop(m);
    if (m->status) return 0;
    if (!is_list_of(id, 5) || id->items[0]->kind != PICKLE_TEXT ||
        strcmp(id->items[0]->text, "storage") != 0 || id->items[1]->kind != PICKLE_GLOBAL ||
        id->items[2]->kind != PICKLE_TEXT || id->items[4]->kind != PICKLE_INT || id->items[4]->i < 0)
        return damaged(m);
    const char *class = id->items[1]->text, *key = id->items[2]->text;
    tn_dtype dtype = dtype_of(class);
    if (!dtype && strcmp(class, UNTYPED) != 0) return damaged(m);
    pickle_node *n = text_node(m, PICKLE_STORAGE, (const uint8_t *)key, strlen(key));
    if (!n) return 0;
    n->dtype = dtype;
    n->i = id->items[4]->i;
    return push(m, n);
}

static int32_t are_numbers(const pickle_node *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i]->kind != PICKLE_INT || list->items[i]->i < 0) return 0;
    return 1;
}

/* Whether the elements of the tensor lie in its storage, in bytes. */
static int32_t fits(const pickle_node *t)
{
    const pickle_node *storage = t->items[0], *sizes = t->items[2], *strides = t->items[3];
    int64_t end = t->items[1]->i, bytes = storage->dtype ? tn_dtype_bytes(storage->dtype) : 1;
    if (__builtin_mul_overflow(storage->i, bytes, &bytes)) return 0;
    int32_t is_empty = 0;
    for (uint32_t d = 0; d < sizes->count; d++) {
        int64_t size = sizes->items[d]->i, step;
        is_empty |= size == 0;
        if (size < 2) continue;
        if (__builtin_mul_overflow(size - 1, strides->items[d]->i, &step) ||
            __builtin_add_overflow(end, step, &end))
            return 0;
    }
    return is_empty || (!__builtin_add_overflow(end, 1, &end) &&
                        !__builtin_mul_overflow(end, tn_dtype_bytes(t->dtype), &end) && end <= bytes);
}

/* What stands in the metadata of a tensor: its conjugate and its negative bit. 0: something else does. */
static int32_t take_metadata(machine *m, pickle_node *t, const pickle_node *metadata)
{
    if (metadata->kind == PICKLE_NONE) return 1;
    if (metadata->kind != PICKLE_DICT) return damaged(m);
    for (uint32_t i = 0; i + 1 < metadata->count; i += 2) {
        const pickle_node *key = metadata->items[i], *value = metadata->items[i + 1];
        if (key->kind != PICKLE_TEXT || value->kind != PICKLE_BOOL) return damaged(m);
        const int64_t bit = !strcmp(key->text, "conj")  ? PICKLE_CONJUGATE
                            : !strcmp(key->text, "neg") ? PICKLE_NEGATIVE
                                                        : 0;
        if (!bit && value->i)
            return refuse(m, TN_E_UNSUPPORTED, "it has a tensor with the metadata '", key->text);
        if (value->i) t->i |= bit;
    }
    return 1;
}

/* (storage, offset, sizes, strides, requires_grad, hooks, [dtype,] [metadata]) */
static int32_t push_tensor(machine *m, const pickle_node *args, int32_t has_dtype)
{
    if (!is_list_of(args, has_dtype ? 7 : 4) || args->items[0]->kind != PICKLE_STORAGE ||
        args->items[1]->kind != PICKLE_INT || args->items[1]->i < 0 || !is_list_of(args->items[2], 0) ||
        !is_list_of(args->items[3], args->items[2]->count) || !are_numbers(args->items[2]) ||
        !are_numbers(args->items[3]))
        return damaged(m);
    pickle_node *t = new_node(m, PICKLE_TENSOR);
    for (uint32_t i = 0; t && i < 4; i++)
        if (!add(m, t, args->items[i])) return 0;
    if (!t) return 0;
    t->dtype = has_dtype && args->items[6]->kind == PICKLE_GLOBAL ? dtype_of(args->items[6]->text)
                                                                  : args->items[0]->dtype;
    const uint32_t metadata = has_dtype ? 7 : 6;
    if (args->count > metadata && !take_metadata(m, t, args->items[metadata])) return 0;
    return t->dtype && fits(t) ? push(m, t) : damaged(m);
}

/* A dictionary from nothing or from a list of pairs. */
static int32_t push_dict(machine *m, const pickle_node *args)
{
    pickle_node *dict = new_node(m, PICKLE_DICT);
    const pickle_node *pairs = args->count ? args->items[0] : NULL;
    if (!dict || (pairs && pairs->kind != PICKLE_LIST)) return dict ? damaged(m) : 0;
    for (uint32_t i = 0; pairs && i < pairs->count; i++) {
        if (!is_list_of(pairs->items[i], 2)) return damaged(m);
        if (!add(m, dict, pairs->items[i]->items[0]) || !add(m, dict, pairs->items[i]->items[1])) return 0;
    }
    return push(m, dict);
}

static int32_t call(machine *m, uint32_t unused)
{
    pickle_node *args = pop(m), *function = m->status ? NULL : pop(m);
    if (!function) return 0;
    if (args->kind != PICKLE_LIST || function->kind != PICKLE_GLOBAL) return damaged(m);
    const char *name = function->text;
    if (!strcmp(name, "collections OrderedDict")) return push_dict(m, args);
    if (!strcmp(name, REBUILD "tensor_v2")) return push_tensor(m, args, 0);
    if (!strcmp(name, REBUILD "tensor_v3")) return push_tensor(m, args, 1);
    int32_t gives_first =
        (!strcmp(name, REBUILD "parameter") && args->count && args->items[0]->kind == PICKLE_TENSOR) ||
        (!strcmp(name, "torch Size") && args->count && args->items[0]->kind == PICKLE_LIST) ||
        (!strcmp(name, "torch device") && args->count && args->items[0]->kind == PICKLE_TEXT);
    return gives_first ? push(m, args->items[0]) : damaged(m);
}

/* ---- Containers ------------------------------------------------------------------------------------------------ */

/* Takes the values down to the mark, and the mark. */
static int32_t take_marked(machine *m, pickle_node ***out, uint32_t *out_count)
{
    if (!m->n_marks) return damaged(m);
    uint32_t mark = m->marks[--m->n_marks];
    *out = m->stack + mark;
    *out_count = m->depth - mark;
    m->depth = mark;
    return 1;
}

static int32_t push_tuple(machine *m, pickle_node **items, uint32_t count)
{
    pickle_node *list = new_node(m, PICKLE_LIST);
    for (uint32_t i = 0; list && i < count; i++)
        if (!add(m, list, items[i])) return 0;
    return push(m, list);
}

static int32_t push_marked_tuple(machine *m, uint32_t unused)
{
    pickle_node **items;
    uint32_t count;
    return take_marked(m, &items, &count) && push_tuple(m, items, count);
}

static int32_t push_short_tuple(machine *m, uint32_t count)
{
    if (m->depth - floor_of(m) < count) return damaged(m);
    m->depth -= count;
    return push_tuple(m, m->stack + m->depth, count);
}

static int32_t extend(machine *m, uint32_t kind, pickle_node **items, uint32_t count)
{
    pickle_node *to = top(m);
    if (!to || to->kind != kind || (kind == PICKLE_DICT && count % 2)) return damaged(m);
    for (uint32_t i = 0; i < count; i++)
        if (!add(m, to, items[i])) return 0;
    return 1;
}

/* By a value, or by a key and a value. */
static int32_t extend_by_one(machine *m, uint32_t kind)
{
    const uint32_t n = kind == PICKLE_DICT ? 2 : 1;
    if (m->depth - floor_of(m) <= n) return damaged(m);
    m->depth -= n;
    return extend(m, kind, m->stack + m->depth, n);
}

static int32_t extend_by_marked(machine *m, uint32_t kind)
{
    pickle_node **items;
    uint32_t count;
    return take_marked(m, &items, &count) && extend(m, kind, items, count);
}

static int32_t memorise(machine *m, uint64_t i)
{
    pickle_node *n = top(m);
    if (!n || i >= MOST_MEMO) return damaged(m);
    while (m->memo_count <= i) {
        if (!grow(m, (void **)&m->memo, m->memo_count, &m->memo_room, sizeof *m->memo)) return 0;
        m->memo[m->memo_count++] = NULL;
    }
    m->memo[i] = n;
    return 1;
}

static int32_t memorise_at(machine *m, uint32_t bytes)
{
    return memorise(m, (uint64_t)number(m, bytes, 0));
}

static int32_t memorise_next(machine *m, uint32_t unused)
{
    return memorise(m, m->memo_count);
}

static int32_t recall(machine *m, uint32_t bytes)
{
    const uint64_t i = (uint64_t)number(m, bytes, 0);
    return i < m->memo_count && m->memo[i] ? push(m, m->memo[i]) : damaged(m);
}

static int32_t mark(machine *m, uint32_t unused)
{
    if (!grow(m, (void **)&m->marks, m->n_marks, &m->marks_room, sizeof *m->marks)) return 0;
    m->marks[m->n_marks++] = m->depth;
    return 1;
}

/* The state of an object: only dictionaries have some, PyTorch's versions of modules, and nobody reads it here. */
static int32_t build(machine *m, uint32_t unused)
{
    pop(m);
    const pickle_node *n = m->status ? NULL : top(m);
    return n && n->kind == PICKLE_DICT ? 1 : damaged(m);
}

/* ---- Opcodes --------------------------------------------------------------------------------------------------- */

static int32_t check_protocol(machine *m, uint32_t bytes)
{
    return number(m, bytes, 0) <= 5 || damaged(m);
}

static int32_t skip(machine *m, uint32_t bytes)
{
    return take(m, bytes) != NULL;
}

static int32_t push_empty(machine *m, uint32_t kind)
{
    return push(m, new_node(m, (pickle_kind)kind));
}

/* What an opcode does, with the bytes of the number that follows it, a kind of node, a value or a count. Names are those of
 * Python's pickletools. */
static const struct {
    int32_t (*run)(machine *m, uint32_t detail); /* NULL: the opcode is not read here */
    uint32_t detail;
} opcodes[256] = {
    ['('] = {mark, 0},                       /* MARK */
    [')'] = {push_empty, PICKLE_LIST},       /* EMPTY_TUPLE */
    ['G'] = {push_float, 8},                 /* BINFLOAT */
    ['J'] = {push_signed, 4},                /* BININT */
    ['K'] = {push_unsigned, 1},              /* BININT1 */
    ['M'] = {push_unsigned, 2},              /* BININT2 */
    ['N'] = {push_empty, PICKLE_NONE},       /* NONE */
    ['Q'] = {push_storage, 0},               /* BINPERSID */
    ['R'] = {call, 0},                       /* REDUCE */
    ['X'] = {push_text, 4},                  /* BINUNICODE */
    [']'] = {push_empty, PICKLE_LIST},       /* EMPTY_LIST */
    ['a'] = {extend_by_one, PICKLE_LIST},    /* APPEND */
    ['b'] = {build, 0},                      /* BUILD */
    ['c'] = {push_global, 0},                /* GLOBAL */
    ['e'] = {extend_by_marked, PICKLE_LIST}, /* APPENDS */
    ['h'] = {recall, 1},                     /* BINGET */
    ['j'] = {recall, 4},                     /* LONG_BINGET */
    ['q'] = {memorise_at, 1},                /* BINPUT */
    ['r'] = {memorise_at, 4},                /* LONG_BINPUT */
    ['s'] = {extend_by_one, PICKLE_DICT},    /* SETITEM */
    ['t'] = {push_marked_tuple, 0},          /* TUPLE */
    ['u'] = {extend_by_marked, PICKLE_DICT}, /* SETITEMS */
    ['}'] = {push_empty, PICKLE_DICT},       /* EMPTY_DICT */
    [0x80] = {check_protocol, 1},            /* PROTO */
    [0x85] = {push_short_tuple, 1},          /* TUPLE1 */
    [0x86] = {push_short_tuple, 2},          /* TUPLE2 */
    [0x87] = {push_short_tuple, 3},          /* TUPLE3 */
    [0x88] = {push_bool, 1},                 /* NEWTRUE */
    [0x89] = {push_bool, 0},                 /* NEWFALSE */
    [0x8a] = {push_long, 1},                 /* LONG1 */
    [0x8c] = {push_text, 1},                 /* SHORT_BINUNICODE */
    [0x93] = {push_stack_global, 0},         /* STACK_GLOBAL */
    [0x94] = {memorise_next, 0},             /* MEMOIZE */
    [0x95] = {skip, 8},                      /* FRAME */
};

static int32_t run_one(machine *m, uint8_t opcode)
{
    char name[16];
    if (opcodes[opcode].run) return opcodes[opcode].run(m, opcodes[opcode].detail);
    snprintf(name, sizeof name, "0x%02x", opcode);
    return refuse(m, TN_E_UNSUPPORTED, "it has the pickle opcode '", name);
}

int32_t pickle_read(pickle *p, const uint8_t *bytes, uint64_t size)
{
    machine m = {.p = p, .at = bytes, .end = bytes + size};
    *p = (pickle){0};
    for (;;) {
        const uint8_t *opcode = take(&m, 1);
        if (!opcode || *opcode == '.' || !run_one(&m, *opcode) || m.status) break;
    }
    if (!m.status) p->root = pop(&m);
    free(m.stack);
    free(m.memo);
    free(m.marks);
    return m.status;
}

void pickle_free(pickle *p)
{
    for (pickle_node *n = p->all, *next; n; n = next) {
        next = n->next;
        free(n->text);
        free(n->items);
        free(n);
    }
    p->all = p->root = NULL;
}
