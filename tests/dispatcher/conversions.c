/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments as a kernel receives them: what is converted, as ATen converts it, and what is refused. */
#include <stdio.h>
#include <string.h>
#include "support.h"

TestSuite(conversions, .init = open_context, .fini = close_context);

static char received[256];

static void put_scalar(char *to, size_t bytes, const tn_value *v)
{
    static const char *const names[] = {[TN_TAG_INT] = "int",
                                        [TN_TAG_BOOL] = "bool",
                                        [TN_TAG_DTYPE] = "dtype",
                                        [TN_TAG_LAYOUT] = "layout",
                                        [TN_TAG_MEMORY_FORMAT] = "format"};
    switch (v->tag) {
    case TN_TAG_FLOAT:
        snprintf(to, bytes, "float %g", v->as.f);
        return;
    case TN_TAG_COMPLEX:
        snprintf(to, bytes, "complex %g %g", v->as.floats[0], v->as.floats[1]);
        return;
    default:
        snprintf(to, bytes, "%s %lld", names[v->tag], (long long)v->as.i);
    }
}

static void put_item(char *to, size_t bytes, const tn_value *v, uint32_t i)
{
    switch (v->tag) {
    case TN_TAG_INTS:
        snprintf(to, bytes, " %lld", (long long)v->as.ints[i]);
        return;
    case TN_TAG_FLOATS:
        snprintf(to, bytes, " %g", v->as.floats[i]);
        return;
    case TN_TAG_BOOLS:
        snprintf(to, bytes, " %d", v->as.bools[i]);
        return;
    case TN_TAG_STRINGS:
        snprintf(to, bytes, " %s", v->as.strings[i]);
        return;
    case TN_TAG_SCALARS:
        to[0] = ' ';
        put_scalar(to + 1, bytes - 1, &v->as.values[i]);
        return;
    default:
        snprintf(to, bytes, v->as.tensors[i] ? " tensor" : " none");
    }
}

/* Writes the second argument into `received`. */
static int32_t receive(void *self, const tn_call *call)
{
    const tn_value *v = &call->args[1];
    switch (v->tag) {
    case TN_TAG_NONE:
        strcpy(received, "none");
        break;
    case TN_TAG_TENSOR:
        snprintf(received, sizeof received, "tensor of rank %d", (int)tn_tensor_rank(v->as.tensor));
        break;
    case TN_TAG_STRING:
        snprintf(received, sizeof received, "str %s", v->as.string);
        break;
    case TN_TAG_DEVICE:
        snprintf(received, sizeof received, "device %d", v->as.device == TN_CPU);
        break;
    case TN_TAG_GENERATOR:
        strcpy(received, "generator");
        break;
    case TN_TAG_TENSORS:
    case TN_TAG_INTS:
    case TN_TAG_FLOATS:
    case TN_TAG_BOOLS:
    case TN_TAG_SCALARS:
    case TN_TAG_STRINGS:
        strcpy(received, "list");
        for (uint32_t i = 0; i < v->count; i++)
            put_item(received + strlen(received), sizeof received - strlen(received), v, i);
        break;
    default:
        put_scalar(received, sizeof received, v);
    }
    return TN_OK;
}

static const int64_t ints[] = {4, 5, 6};
static const double floats[] = {0.5, -1, 2};
static const uint8_t bools[] = {1, 0, 1};
static const char *const strings[] = {"a", "b"};
static const tn_value scalars[] = {{TN_TAG_INT, 0, {.i = 7}}, {TN_TAG_FLOAT, 0, {.f = 1.5}}};
static tn_tensor *const no_tensor[] = {NULL};

#define INT(x)         \
    {                  \
        TN_TAG_INT, 0, \
        {              \
            .i = x     \
        }              \
    }
#define FLOAT(x)         \
    {                    \
        TN_TAG_FLOAT, 0, \
        {                \
            .f = x       \
        }                \
    }
#define BOOL(x)         \
    {                   \
        TN_TAG_BOOL, 0, \
        {               \
            .i = x      \
        }               \
    }
#define COMPLEX              \
    {                        \
        TN_TAG_COMPLEX, 2,   \
        {                    \
            .floats = floats \
        }                    \
    }
#define STRING             \
    {                      \
        TN_TAG_STRING, 2,  \
        {                  \
            .string = "xy" \
        }                  \
    }
#define INTS(n)          \
    {                    \
        TN_TAG_INTS, n,  \
        {                \
            .ints = ints \
        }                \
    }
#define FLOATS(n)            \
    {                        \
        TN_TAG_FLOATS, n,    \
        {                    \
            .floats = floats \
        }                    \
    }
#define BOOLS(n)           \
    {                      \
        TN_TAG_BOOLS, n,   \
        {                  \
            .bools = bools \
        }                  \
    }
#define SCALARS               \
    {                         \
        TN_TAG_SCALARS, 2,    \
        {                     \
            .values = scalars \
        }                     \
    }
#define STRINGS                \
    {                          \
        TN_TAG_STRINGS, 2,     \
        {                      \
            .strings = strings \
        }                      \
    }
#define NO_TENSOR                \
    {                            \
        TN_TAG_TENSORS, 1,       \
        {                        \
            .tensors = no_tensor \
        }                        \
    }
#define NONE            \
    {                   \
        TN_TAG_NONE, 0, \
        {               \
            0           \
        }               \
    }
#define UNKNOWN \
    {           \
        77, 0,  \
        {       \
            0   \
        }       \
    }
#define PLAIN            \
    {                    \
        TN_TAG_PLAIN, 0, \
        {                \
            .i = 7       \
        }                \
    }
#define DTYPE            \
    {                    \
        TN_TAG_DTYPE, 0, \
        {                \
            .i = TN_INT8 \
        }                \
    }

/* The type of an argument, a value, and what the kernel receives or the error says. */
static const struct {
    const char *type;
    tn_value given;
    const char *received, *error;
} table[] = {
    {"int a", INT(3), "int 3", NULL},
    {"int a", BOOL(1), "int 1", NULL},
    {"int a", FLOAT(2), NULL, "argument 'a' (position 2) must be int, not float"},
    {"int a", NONE, NULL, "argument 'a' (position 2) must be int, not None"},
    {"int a", UNKNOWN, NULL, "must be int, not an unknown tag"},
    {"int? a", NONE, "none", NULL},
    {"int a=8", NONE, "int 8", NULL},
    {"float a", FLOAT(0.25), "float 0.25", NULL},
    {"float a", INT(2), "float 2", NULL},
    {"float a", BOOL(1), "float 1", NULL},
    {"float a", STRING, NULL, "must be float, not str"},
    {"bool a", BOOL(0), "bool 0", NULL},
    {"bool a", INT(5), "bool 1", NULL},
    {"bool a", FLOAT(1), NULL, "must be bool, not float"},
    {"Scalar a", INT(3), "int 3", NULL},
    {"Scalar a", COMPLEX, "complex 0.5 -1", NULL},
    {"Scalar a", STRING, NULL, "must be Scalar, not str"},
    {"complex a", FLOAT(1), "float 1", NULL},
    {"str a", STRING, "str xy", NULL},
    {"str a", INT(1), NULL, "must be str, not int"},
    {"ScalarType a", DTYPE, "dtype 67584", NULL},
    {"ScalarType a", INT(1), NULL, "must be ScalarType, not int"},
    {"Layout a", {TN_TAG_LAYOUT, 0, {.i = 4}}, "layout 4", NULL},
    {"Layout a", INT(1), NULL, "must be Layout, not int"},
    {"Device a", {TN_TAG_DEVICE, 0, {.device = TN_CPU}}, "device 1", NULL},
    {"Device a", INT(1), NULL, "must be Device, not int"},
    {"MemoryFormat a", {TN_TAG_MEMORY_FORMAT, 0, {.i = 2}}, "format 2", NULL},
    {"MemoryFormat a", INT(1), NULL, "must be MemoryFormat, not int"},
    {"Generator a", NONE, "none", NULL},
    {"Generator a", INT(1), NULL, "must be Generator, not int"},
    {"Any a", STRING, "str xy", NULL},
    {"Any a", UNKNOWN, NULL, "must be Any, not an unknown tag"},
    {"Any a", PLAIN, NULL, "must be Any, not a plain number: write TN_SCALAR(x)"},
    {"Any[] a", INTS(3), "list 4 5 6", NULL},
    {"Any[] a", UNKNOWN, NULL, "must be Any[], not an unknown tag"},
    {"Stream a", UNKNOWN, NULL, "must be Stream, not an unknown tag"},
    {"int[] a", INTS(3), "list 4 5 6", NULL},
    {"int[] a", INT(3), "list 3", NULL},
    {"int[] a", FLOAT(3), NULL, "must be int[], not float"},
    {"int[2] a", INT(3), "list 3 3", NULL},
    {"int[2] a", INTS(1), "list 4 4", NULL},
    {"int[2] a", INTS(2), "list 4 5", NULL},
    {"int[2] a", INTS(3), "list 4 5 6", NULL}, /* ATen leaves this to the operator */
    {"float[] a", FLOATS(3), "list 0.5 -1 2", NULL},
    {"float[] a", INTS(2), "list 4 5", NULL},
    {"float[2] a", FLOAT(0.5), "list 0.5 0.5", NULL},
    {"float[2] a", INT(3), "list 3 3", NULL},
    {"float[] a", BOOL(1), NULL, "must be float[], not bool"},
    {"bool[] a", BOOLS(3), "list 1 0 1", NULL},
    {"bool[2] a", BOOLS(2), "list 1 0", NULL},
    {"bool[2] a", BOOLS(3), NULL, "argument 'a' must have 2 items, got 3"},
    {"bool[] a", INT(1), NULL, "must be bool[], not int"},
    {"Scalar[] a", SCALARS, "list int 7 float 1.5", NULL},
    {"Scalar[] a", INTS(2), NULL, "must be Scalar[], not int[]"},
    {"str[] a", STRINGS, "list a b", NULL},
    {"str[] a", STRING, NULL, "must be str[], not str"},
    {"str[] a=['p', 'q']", NONE, "list p q", NULL},
    {"float[2] a=0.5", NONE, "list 0.5 0.5", NULL},
    {"Scalar[] a=[1, 2.5]", NONE, "list int 1 float 2.5", NULL},
    {"Tensor a", INT(3), "tensor of rank 0", NULL},
    {"Tensor a", STRING, NULL, "must be Tensor, not str"},
    {"Tensor[] a", NO_TENSOR, NULL, "argument 'a': item 0 is None"},
    {"Tensor?[] a", NO_TENSOR, "list none", NULL},
    {"Tensor[] a", INTS(1), NULL, "must be Tensor[], not int[]"},
    {"Any[] a", INTS(2), "list 4 5", NULL},
};

Test(conversions, every_type_of_argument)
{
    static char schemas[sizeof table / sizeof *table][96];
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        snprintf(schemas[i], sizeof schemas[i], "test::take%zu(Tensor x, %s) -> Tensor", i, table[i].type);
        uint32_t op = define(schemas[i]);
        add_row("cpu", schemas[i], 0, receive, NULL);
        strcpy(received, "nothing");
        CALL(op, tn_value_tensor(x), table[i].given);
        if (table[i].error) {
            expect_failure(TN_E_ARGUMENT, table[i].error);
            cr_expect_str_eq(received, "nothing", "%s", schemas[i]);
        } else {
            cr_expect_eq(tn_scope_failed(s), TN_OK, "%s: %s", schemas[i], tn_scope_error(s)->message);
            cr_expect_str_eq(received, table[i].received, "%s: %s", schemas[i], received);
        }
        tn_scope_clear(s);
    }
}

Test(conversions, a_list_too_long_for_the_call_is_refused)
{
    static int64_t many[1000];
    const char *schema = "test::long_list(Tensor x, float[] a) -> Tensor";
    uint32_t op = define(schema);
    add_row("cpu", schema, 0, receive, NULL);
    CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(2))), tn_value_ints(many, 1000));
    expect_failure(TN_E_INTERNAL, "long_list: the call needs more than 4096 bytes of shapes");
}

Test(conversions, given_generators_and_tensors_are_passed_on)
{
    const char *generator = "test::generator(Tensor x, Generator? a) -> Tensor",
               *lists = "test::lists(Tensor x, Tensor[] a) -> Tensor";
    uint32_t op = define(generator), list_op = define(lists);
    tn_tensor *x = tn_ones(s, TN_INTS(2)), *two[] = {x, x};
    tn_generator *g = NULL;
    add_row("cpu", generator, 0, receive, NULL);
    add_row("cpu", lists, 0, receive, NULL);
    cr_assert_eq(tn_generator_create(ctx, 1, &g), TN_OK);
    tn_value v = tn_value_make(TN_TAG_GENERATOR, 0);
    v.as.generator = g;
    cr_expect_not_null(CALL(op, tn_value_tensor(x), v));
    cr_expect_str_eq(received, "generator");
    cr_expect_not_null(CALL(list_op, tn_value_tensor(x), tn_value_tensors(two, 2)));
    cr_expect_str_eq(received, "list tensor tensor");
    tn_generator_release(g);
}
