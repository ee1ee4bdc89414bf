/* SPDX-License-Identifier: Apache-2.0 */
/* tenon/kernel.h and tenon/device_kernel.h, which plugins compile into themselves: numbers of each dtype, arrays of
 * nests and tensors, 16-bit floats, walks, copied calls. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kernel.h>

/* The value of a 16-bit pattern by the definition of the format. */
static double value_of(uint32_t bits, int fraction_bits, int bias)
{
    int exponent = (int)((bits & 0x7fffu) >> fraction_bits),
        fraction = (int)(bits & ((1u << fraction_bits) - 1));
    double one = exponent ? 1 << fraction_bits : 0;
    return ldexp(one + fraction, (exponent ? exponent : 1) - bias - fraction_bits);
}

/* Each pattern is read as its value and written as itself; between two neighbours the nearer one is written,
 * in the middle the even one. */
static void check_halves(tn_dtype dtype, int fraction_bits, int bias)
{
    uint32_t infinity = (0x7fffu >> fraction_bits) << fraction_bits;
    for (uint32_t bits = 0; bits < infinity; bits++) {
        uint16_t pattern = (uint16_t)bits, back, above = (uint16_t)(bits + 1);
        double x = value_of(bits, fraction_bits, bias), next = value_of(bits + 1, fraction_bits, bias);
        const double reals[] = {x, (x + next) / 2, nextafter((x + next) / 2, 0),
                                nextafter((x + next) / 2, next)};
        const uint16_t expected[] = {pattern, bits % 2 ? above : pattern, pattern, above};
        cr_assert_eq(tn_number_load(dtype, &pattern).f, x, "0x%04x", bits);
        for (int i = 0; i < 4; i++) {
            tn_number_store(dtype, &back, tn_number_real(reals[i]));
            cr_assert_eq(back, expected[i], "0x%04x, %d: 0x%04x", bits, i, back);
            tn_number_store(dtype, &back, tn_number_real(-reals[i]));
            cr_assert_eq(back, expected[i] | 0x8000u, "-0x%04x, %d: 0x%04x", bits, i, back);
        }
    }
    const double beyond[] = {INFINITY, 1e300, NAN};
    for (int i = 0; i < 3; i++) {
        uint16_t back;
        tn_number_store(dtype, &back, tn_number_real(beyond[i]));
        double x = tn_number_load(dtype, &back).f;
        cr_assert(i < 2 ? back == infinity && x == INFINITY : isnan(x));
    }
}

Test(kernel, half_types_round_once)
{
    check_halves(TN_FLOAT16, 10, 15);
    check_halves(TN_BFLOAT16, 7, 127);
}

Test(kernel, numbers_wrap_and_are_cut_off)
{
    const struct {
        tn_dtype dtype;
        tn_number in;
        double f;
        int64_t i;
    } cases[] = {
        {TN_BOOL, tn_number_real(0.25), 1, 1},
        {TN_BOOL, tn_number_whole(INT64_C(1) << 62), 1, 1},
        {TN_UINT8, tn_number_whole(300), 44, 44},
        {TN_INT8, tn_number_whole(200), -56, -56},
        {TN_UINT16, tn_number_whole(-1), 65535, 65535},
        {TN_INT16, tn_number_real(-2.75), -2, -2},
        {TN_UINT32, tn_number_whole(-1), 4294967295.0, 4294967295},
        {TN_INT32, tn_number_whole(INT64_C(1) << 31), -2147483648.0, -2147483648LL},
        {TN_INT64, tn_number_whole((INT64_C(1) << 53) + 1), 9007199254740992.0, 9007199254740993},
        {TN_INT64, tn_number_real(NAN), -0x1p63, INT64_MIN},
        {TN_FLOAT32, tn_number_whole((1 << 24) + 1), 16777216, 16777216},
        {TN_FLOAT64, tn_number_real(-0.1), -0.1, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double room;
        memset(&room, 0x55, sizeof room);
        tn_number_store(cases[k].dtype, &room, cases[k].in);
        tn_number back = tn_number_load(cases[k].dtype, &room);
        cr_assert_eq(back.f, cases[k].f, "case %zu: %g", k, back.f);
        cr_assert_eq(back.i, cases[k].i, "case %zu: %lld", k, (long long)back.i);
        for (size_t b = TN_DTYPE_BITS(cases[k].dtype) / 8; b < sizeof room; b++)
            cr_assert_eq(((unsigned char *)&room)[b], 0x55, "case %zu wrote past its element", k);
    }
    cr_assert_eq(tn_number_of(tn_value_bool(1)).f, 1);
    cr_assert_eq(tn_number_of(tn_value_float(2.5)).i, 2);
    cr_assert_eq(tn_number_of(tn_value_none()).i, 0);
}

/* A view of every second element: rows of three in rows of five elements of memory. */
static tn_tensor_desc rows(const int64_t *sizes, const int64_t *strides, float *data)
{
    return (tn_tensor_desc){.size = sizeof(tn_tensor_desc),
                            .dtype = TN_FLOAT32,
                            .rank = 2,
                            .host = data,
                            .sizes = sizes,
                            .strides = strides};
}

Test(kernel, elements_are_counted_in_row_major_order)
{
    float data[10], small[] = {7};
    const int64_t sizes[] = {2, 3}, strides[] = {5, 2}, expected[] = {0, 2, 4, 5, 7, 9};
    for (int i = 0; i < 10; i++) data[i] = (float)i;
    tn_tensor_desc t = rows(sizes, strides, data), scalar = t;
    tn_strided a = tn_strided_tensor(&t);
    cr_assert_eq(tn_strided_numel(&a), 6);
    for (int i = 0; i < 6; i++) cr_assert_eq(tn_strided_get(&a, i).i, expected[i]);
    cr_assert_eq(tn_strided_dim(&a, 0), 1);
    cr_assert_eq(tn_strided_dim(&a, -1), 0);
    tn_strided_swap(&a, 0, 1); /* columns of two */
    const int64_t columns[] = {0, 5, 2, 7, 4, 9};
    for (int i = 0; i < 6; i++) cr_assert_eq(tn_strided_get(&a, i).i, columns[i]);
    scalar.rank = 0;
    scalar.host = small;
    tn_strided one = tn_strided_tensor(&scalar);
    cr_assert_eq(one.rank, 1);
    cr_assert_eq(tn_strided_numel(&one), 1);
    tn_strided_expand(&one, &a);
    for (int i = 0; i < 6; i++) cr_assert_eq(tn_strided_get(&one, i).f, 7);
    tn_strided_put(&a, 3, tn_number_real(-1));
    cr_assert_eq(data[7], -1);
}

Test(kernel, an_index_picks_along_a_dimension)
{
    float data[10];
    int64_t positions[] = {1, 0, 1, 2};
    const int64_t sizes[] = {2, 3}, strides[] = {5, 2}, two[] = {2, 2}, dense[] = {2, 1};
    for (int i = 0; i < 10; i++) data[i] = (float)i;
    tn_tensor_desc t = rows(sizes, strides, data), index = t;
    index.dtype = TN_INT64;
    index.sizes = two;
    index.strides = dense;
    index.host = positions;
    tn_strided a = tn_strided_tensor(&t), by = tn_strided_tensor(&index);
    const float along_columns[] = {2, 0, 7, 9}, along_rows[] = {5, 2, 5};
    for (int i = 0; i < 4; i++)
        cr_assert_eq(*(float *)tn_strided_pick(&a, tn_strided_dim(&a, 1), &by, i), along_columns[i]);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(*(float *)tn_strided_pick(&a, tn_strided_dim(&a, 0), &by, i), along_rows[i]);
    cr_assert_null(tn_strided_pick(&a, tn_strided_dim(&a, 0), &by, 3)); /* row 2 of 2 */
    positions[0] = -1;
    cr_assert_null(tn_strided_pick(&a, 0, &by, 0));
}

/* The host's operands may be larger than this header's: the step is operand_bytes of the nest. */
Test(kernel, operands_of_a_nest)
{
    struct {
        tn_operand operand;
        char more[24];
    } operands[2];
    float data[6] = {0, 1, 2, 3, 4, 5};
    const int64_t sizes[] = {3, 2}, strides[2][2] = {{4, 12}, {0, 4}};
    memset(operands, 0xff, sizeof operands);
    for (int i = 0; i < 2; i++)
        operands[i].operand = (tn_operand){
            .size = sizeof operands[i], .dtype = TN_FLOAT32, .host = (char *)data, .strides = strides[i]};
    tn_nest nest = {.size = sizeof nest,
                    .rank = 2,
                    .operand_bytes = sizeof operands[0],
                    .numel = 6,
                    .sizes = sizes,
                    .operands = &operands[0].operand};
    tn_strided first = tn_strided_operand(&nest, 0), second = tn_strided_operand(&nest, 1);
    const float repeated[] = {0, 0, 0, 1, 1, 1};
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(tn_strided_get(&first, i).f, i);
        cr_assert_eq(tn_strided_get(&second, i).f, repeated[i]);
    }
}

Test(kernel, dtypes_of_a_call)
{
    static const tn_dtype list[] = {TN_INT64, TN_FLOAT32, 0};
    float data[4];
    const int64_t sizes[] = {2, 2}, strides[] = {2, 1};
    tn_tensor_desc known = rows(sizes, strides, data), other = known;
    tn_value args[] = {tn_value_tensor((tn_tensor *)(void *)&known), tn_value_float(1)};
    tn_value outs[] = {tn_value_tensor((tn_tensor *)(void *)&other)};
    tn_call call = {.size = sizeof call, .n_args = 2, .n_outs = 1, .args = args, .outs = outs};
    cr_assert_eq(tn_call_dtypes_in(&call, list), 1);
    other.dtype = TN_FLOAT64;
    cr_assert_eq(tn_call_dtypes_in(&call, list), 0);
}

/* All float16 and bfloat16 values, and values between neighbours, against the conversions of tn_number. */
Test(kernel, device_halves_are_those_of_the_host)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t pattern = (uint16_t)bits;
        double half = tn_number_load(TN_FLOAT16, &pattern).f, brain = tn_number_load(TN_BFLOAT16, &pattern).f;
        cr_assert((double)tn_float_of_half(pattern) == half || isnan(half), "0x%04x", bits);
        cr_assert((double)tn_float_of_bfloat16(pattern) == brain || isnan(brain), "0x%04x", bits);
        for (uint32_t low = 0; low < 65536; low += 0x0fff) {
            float f = tn_float_of_bits(bits << 16 | low);
            uint16_t expected;
            if (isnan(f)) {
                cr_assert(isnan(tn_float_of_half(tn_half_of_float(f))));
                cr_assert(isnan(tn_float_of_bfloat16(tn_bfloat16_of_float(f))));
                continue;
            }
            tn_number_store(TN_FLOAT16, &expected, tn_number_real((double)f));
            cr_assert_eq(tn_half_of_float(f), expected, "%a", (double)f);
            tn_number_store(TN_BFLOAT16, &expected, tn_number_real((double)f));
            cr_assert_eq(tn_bfloat16_of_float(f), expected, "%a", (double)f);
        }
    }
}

Test(kernel, a_walk_finds_what_a_nest_finds)
{
    float data[6];
    tn_walk walk;
    const int64_t sizes[TN_WALK_RANK + 1] = {3, 2}, strides[2][2] = {{4, 12}, {0, 4}};
    tn_operand operands[TN_WALK_OPERANDS + 1] = {{.size = sizeof(tn_operand)}};
    for (int i = 0; i < 2; i++)
        operands[i] = (tn_operand){
            .size = sizeof(tn_operand), .dtype = TN_FLOAT32, .host = (char *)data, .strides = strides[i]};
    tn_nest nest = {.size = sizeof nest,
                    .rank = 2,
                    .kept = 1,
                    .n_operands = 2,
                    .operand_bytes = sizeof operands[0],
                    .numel = 6,
                    .sizes = sizes,
                    .operands = operands};
    cr_assert_eq(tn_walk_of_nest(&nest, &walk), 1);
    cr_assert_eq(walk.numel, 6);
    cr_assert_eq(walk.lines, 3);
    for (uint32_t k = 0; k < 2; k++) {
        tn_strided a = tn_strided_operand(&nest, k);
        for (int64_t i = 0; i < 6; i++)
            cr_assert_eq(tn_walk_offset(&walk, k, i), (char *)tn_strided_at(&a, i) - (char *)data);
    }
    nest.n_operands = TN_WALK_OPERANDS + 1;
    cr_assert_eq(tn_walk_of_nest(&nest, &walk), 0);
    nest.n_operands = 2;
    nest.rank = TN_WALK_RANK + 1;
    cr_assert_eq(tn_walk_of_nest(&nest, &walk), 0);
}

static char device_memory[64];

static void *address_of(void *allocation, uint64_t offset)
{
    return allocation == &device_memory[1] ? device_memory + offset : NULL; /* the handle is not an address */
}

/* What the test below put into its call; device addresses are resolved. */
static void expect_copied(const tn_call *copy)
{
    const tn_value *v = copy->args;
    const tn_tensor_desc *t = tn_desc(v[0].as.tensor);
    cr_assert_eq(t->host, device_memory + 8);
    cr_assert_eq(t->sizes[1], 3);
    cr_assert_eq(t->strides[0], 5);
    cr_assert_eq(*(float *)tn_desc(v[1].as.tensor)->host, 7);
    cr_assert_eq(tn_desc(v[2].as.tensors[0])->sizes[0], 2);
    cr_assert_null(v[2].as.tensors[1]);
    cr_assert_eq(v[3].as.ints[1], 5);
    cr_assert_eq(v[4].as.floats[0], 1.5);
    cr_assert_str_eq(v[5].as.string, "tanh");
    cr_assert_eq(v[6].as.bools[2], 1);
    cr_assert_eq(v[7].as.values[0].as.i, 9);
    cr_assert_eq(v[7].as.values[1].as.floats[0], 1.5);
    cr_assert_str_eq(v[8].as.strings[0], "word");
    cr_assert_eq(v[9].as.floats[0], 0.5);
    cr_assert_eq(tn_desc(copy->outs[0].as.tensor)->host, device_memory + 8);
    cr_assert_eq(copy->nest->sizes[0], 3);
    cr_assert_eq(copy->nest->operands[0].host, device_memory);
    cr_assert_eq(*(float *)(void *)copy->nest->operands[1].host, 7);
    cr_assert_eq(copy->nest->operands[1].strides[0], 4);
}

/* A call with a value of every kind is copied; then the original is overwritten, and the copy read. */
Test(kernel, a_copied_call_stands_alone)
{
    int64_t sizes[] = {2, 3}, strides[] = {5, 2}, ints[] = {4, 5}, nest_sizes[] = {3}, nest_strides[] = {4};
    double complex_number[] = {1.5, -2}, floats[] = {0.5};
    uint8_t bools[] = {1, 0, 1};
    char text[] = "tanh", word[] = "word";
    float number = 7;
    const char *strings[] = {word};
    tn_tensor_desc on_device = rows(sizes, strides, NULL), on_host = on_device;
    on_device.allocation = &device_memory[1];
    on_device.byte_offset = 8;
    on_host.rank = 0;
    on_host.host = &number;
    tn_tensor *list[] = {(tn_tensor *)(void *)&on_device, NULL};
    tn_value scalars[] = {tn_value_int(9), tn_value_complex(complex_number)};
    tn_value args[] = {tn_value_tensor(list[0]),         tn_value_tensor((tn_tensor *)(void *)&on_host),
                       tn_value_tensors(list, 2),        tn_value_ints(ints, 2),
                       tn_value_complex(complex_number), tn_value_string(text),
                       tn_value_bools(bools, 3),         tn_value_scalars(scalars, 2),
                       tn_value_strings(strings, 1),     tn_value_floats(floats, 1)};
    tn_value outs[] = {tn_value_tensor(list[0])};
    tn_operand operands[] = {
        {.size = sizeof(tn_operand), .allocation = &device_memory[1], .strides = nest_strides},
        {.size = sizeof(tn_operand),
         .flags = TN_OPERAND_IMMEDIATE,
         .dtype = TN_FLOAT32,
         .host = (char *)&number,
         .strides = nest_strides}};
    tn_nest nest = {.size = sizeof nest,
                    .rank = 1,
                    .n_operands = 2,
                    .operand_bytes = sizeof operands[0],
                    .sizes = nest_sizes,
                    .operands = operands};
    tn_call call = {
        .size = sizeof call, .n_args = 10, .n_outs = 1, .args = args, .outs = outs, .nest = &nest};
    uint64_t bytes = tn_call_copy(&call, address_of, NULL);
    char *memory = calloc(1, bytes + 8);
    cr_assert_eq(tn_call_copy(&call, address_of, memory), bytes);
    for (int i = 0; i < 8; i++) cr_assert_eq(memory[bytes + (uint64_t)i], 0, "wrote past the end");
    for (int i = 0; i < 2; i++) sizes[i] = strides[i] = ints[i] = -1;
    nest_sizes[0] = nest_strides[0] = -1;
    complex_number[0] = floats[0] = number = -1;
    memset(bools, 9, sizeof bools);
    text[0] = word[0] = 'x';
    list[0] = NULL;
    memset(operands, 0xff, sizeof operands);
    memset(&on_device, 0xff, sizeof on_device);
    memset(&on_host, 0xff, sizeof on_host);
    memset(scalars, 0xff, sizeof scalars);
    memset(outs, 0xff, sizeof outs);
    memset(args, 0xff, sizeof args);
    expect_copied((const tn_call *)(void *)memory);
    free(memory);
}
