/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that are made by the names of their classes and options, what they say of their options, and sizes of structs of options. */
#include <string.h>
#include "module_suite.h"

TestSuite(by_name, .init = open_module, .fini = close_module);

static tn_module *make_layer(tn_module *parent, const char *layer, tn_layer_option a, tn_layer_option b,
                             tn_layer_option c)
{
    const tn_layer_option options[] = {a, b, c};
    uint32_t count = 0;
    while (count < 3 && options[count].name) count++;
    return tn_layer_create(parent, NULL, layer, options, count);
}
#define NO ((tn_layer_option){NULL, {0}})

/* As PyTorch prints them: what is not given has its default. */
Test(by_name, layers_by_name_have_the_defaults)
{
    static const int64_t sizes[] = {3, 5};
    tn_module *tree = tn_module_create(ctx, "net", NULL);
    const tn_layer_option in = {"in_features", tn_value_int(3)}, out = {"out_features", tn_value_int(4)};
    make_layer(tree, "Linear", in, out, NO);
    make_layer(tree, "Linear", out, (tn_layer_option){"bias", tn_value_bool(0)}, in);
    make_layer(tree, "Conv2d", (tn_layer_option){"in_channels", tn_value_int(2)},
               (tn_layer_option){"out_channels", tn_value_int(6)},
               (tn_layer_option){"kernel_size", tn_value_int(3)});
    make_layer(tree, "LayerNorm", (tn_layer_option){"normalized_shape", tn_value_ints(sizes, 2)}, NO, NO);
    make_layer(tree, "BatchNorm2d", (tn_layer_option){"num_features", tn_value_int(7)},
               (tn_layer_option){"momentum", tn_value_none()}, NO);
    make_layer(tree, "Dropout", NO, NO, NO);
    make_layer(tree, "GELU", (tn_layer_option){"approximate", tn_value_string("tanh")}, NO, NO);
    make_layer(tree, "Softplus", NO, NO, NO);
    make_layer(tree, "Flatten", NO, NO, NO);
    cr_assert_eq(tn_module_failed(tree), TN_OK, "%s", tn_module_error(tree));
    const char *text = tn_module_format(s, tree);
    static const char *const lines[] = {
        "(0): Linear(in_features=3, out_features=4, bias=True)",
        "(1): Linear(in_features=3, out_features=4, bias=False)",
        "(2): Conv2d(2, 6, kernel_size=(3, 3), stride=(1, 1))",
        "(3): LayerNorm((3, 5), eps=1e-05, elementwise_affine=True",
        "(4): BatchNorm2d(7, eps=1e-05, momentum=None, affine=True, ",
        "(5): Dropout(p=0.5, inplace=False)",
        "(6): GELU(approximate='tanh')",
        "(7): Softplus(beta=1.0, threshold=20.0)",
        "(8): Flatten(start_dim=1, end_dim=-1)",
    };
    for (uint32_t i = 0; i < sizeof lines / sizeof *lines; i++)
        cr_expect_not_null(strstr(text, lines[i]), "%s in:\n%s", lines[i], text);
    tn_module_destroy(tree);
}

static void expect_not_made(const char *layer, tn_layer_option a, tn_layer_option b, const char *part)
{
    tn_module *tree = tn_module_create(ctx, "net", NULL);
    cr_expect_null(make_layer(tree, layer, a, b, NO), "%s", part);
    cr_expect_eq(tn_module_failed(tree), TN_E_ARGUMENT);
    cr_expect_not_null(strstr(tn_module_error(tree), part), "%s", tn_module_error(tree));
    tn_module_destroy(tree);
}

Test(by_name, layers_by_name_that_cannot_be_made)
{
    const tn_layer_option in = {"in_features", tn_value_int(3)}, out = {"out_features", tn_value_int(4)};
    expect_not_made("Lynear", in, out, "there is no layer 'Lynear'");
    expect_not_made("Linear", in, NO, "Linear: the option 'out_features' must be given, an int");
    expect_not_made("Linear", in, (tn_layer_option){"features", tn_value_int(1)},
                    "Linear: there is no option 'features'");
    expect_not_made("Linear", in, (tn_layer_option){"out_features", tn_value_string("4")},
                    "Linear: option 'out_features': got a value with the tag 7, expected an int");
    expect_not_made("BatchNorm2d", (tn_layer_option){"num_features", tn_value_int(2)},
                    (tn_layer_option){"affine", tn_value_int(2)},
                    "BatchNorm2d: option 'affine': got a value with the tag 3, expected a bool");
    expect_not_made("BatchNorm2d", (tn_layer_option){"num_features", tn_value_int(2)},
                    (tn_layer_option){"eps", tn_value_none()}, "BatchNorm2d: option 'eps'");
    cr_expect_null(tn_layer_create(NULL, "m", "Linear", &in, 1));
}

Test(by_name, what_layers_take)
{
    tn_layer_option_info o = {.size = sizeof o};
    uint32_t required = 0, found = 0;
    for (uint32_t i = 0; i < tn_layer_count(); i++) {
        found += !strcmp(tn_layer_name(i), "LSTM");
        for (uint32_t k = 0; !tn_layer_option_at(tn_layer_name(i), k, &o); k++) {
            cr_assert(o.name && *o.name && o.tag);
            required += o.is_required && o.standard.tag == TN_TAG_NONE;
        }
        cr_assert_eq(tn_last_error()->code, TN_E_INDEX);
    }
    cr_assert(found == 1 && required > 100 && !tn_layer_name(tn_layer_count()));
    cr_assert_eq(tn_layer_option_at("Linear", 2, &o), TN_OK);
    cr_assert(!strcmp(o.name, "bias") && o.tag == TN_TAG_BOOL && o.standard.as.i == 1 && !o.is_required);
    cr_assert_eq(tn_layer_option_at("Conv2d", 2, &o), TN_OK);
    cr_assert(!strcmp(o.name, "kernel_size") && o.tag == TN_TAG_INTS && o.items == 2 && o.is_required);
    cr_assert_eq(tn_layer_option_at("Dropout", 0, &o), TN_OK);
    cr_assert(o.tag == TN_TAG_FLOAT && o.standard.as.f == 0.5);
    cr_assert_eq(tn_layer_option_at("Lynear", 0, &o), TN_E_NOT_FOUND);
    o.size = 0;
    cr_assert_eq(tn_layer_option_at("Linear", 0, &o), TN_E_ARGUMENT);
}

/* A struct whose size is not set, and one of a header that is newer than the library. */
Test(by_name, options_of_layers_have_a_size)
{
    static const uint32_t sizes[] = {0, 4, 8, offsetof(tn_linear_options, out_features), 1u << 30};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tn_module *tree = tn_module_create(ctx, "net", NULL);
        const tn_linear_options o = {
            .options_size = sizes[i], .name = "m", .in_features = 2, .out_features = 3, .bias = 1};
        cr_expect_null(tn_linear_create_with(tree, &o));
        cr_expect_not_null(strstr(tn_module_error(tree), "Linear: options_size is "), "%s",
                           tn_module_error(tree));
        tn_module_destroy(tree);
    }
    struct {
        tn_linear_options known;
        uint64_t newer;
    } o = {{.options_size = sizeof o, .name = "m", .in_features = 2, .out_features = 3, .bias = 1}, 0};
    tn_module *tree = tn_module_create(ctx, "net", NULL);
    cr_expect_not_null(tn_linear_create_with(tree, &o.known), "%s", tn_module_error(tree));
    o.newer = 1;
    o.known.name = "n";
    cr_expect_null(tn_linear_create_with(tree, &o.known));
    cr_expect_eq(tn_module_failed(tree), TN_E_UNKNOWN_FIELD, "%s", tn_module_error(tree));
    tn_module_destroy(tree);
}
