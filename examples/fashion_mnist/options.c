/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "demo.h"

static const char usage[] =
    "usage: fashion_mnist [options]\n"
    "  --device NAME    cpu, cuda:0, ... (default: the best there is)\n"
    "  --epochs N       passes over the data (default 3)\n"
    "  --batch N        images in a step (default 128)\n"
    "  --dtype NAME     float32 or bf16 (default float32)\n"
    "  --seed N         of weights and order (default 1)\n"
    "  --threads N      of the CPU (default: all cores)\n"
    "  --images N       train on the first N images only (default: all)\n"
    "  --data DIR       folder with the four files (default /usr/share/datasets/fashion-mnist)\n"
    "  --output DIR     where loss.svg and weights.safetensors go (default demo-output)\n";

static int wrong(const char *what)
{
    fprintf(stderr, "fashion_mnist: %s\n%s", what, usage);
    return 2;
}

static int wrong_value(const char *name, const char *value, const char *expected)
{
    fprintf(stderr, "fashion_mnist: --%s '%s': %s is expected\n", name, value, expected);
    return 2;
}

/* A whole number from `least` to `most`: 0 and the number, or 1. */
static int whole(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    errno = 0;
    int64_t n = strtoll(text, &end, 10);
    if (errno || end == text || *end || n < least || n > most) return 1;
    *out = n;
    return 0;
}

static const char *take(options *o, int letter, const char *value)
{
    int64_t seed = 0;
    switch (letter) {
    case 'd':
        o->device = value;
        return NULL;
    case 'e':
        return whole(value, 1, 100000, &o->epochs) ? "a number from 1 to 100000" : NULL;
    case 'b':
        return whole(value, 1, 1 << 20, &o->batch) ? "a number from 1 to 1048576" : NULL;
    case 'i':
        return whole(value, 1, INT64_MAX, &o->train_images) ? "a number of at least 1" : NULL;
    case 't':
        return whole(value, 1, 4096, &o->threads) ? "a number from 1 to 4096" : NULL;
    case 's':
        if (whole(value, 0, INT64_MAX, &seed)) return "a number from 0 to 9223372036854775807";
        o->seed = (uint64_t)seed;
        return NULL;
    case 'D':
        o->data = value;
        return NULL;
    case 'o':
        o->output = value;
        return NULL;
    default:
        o->dtype = tn_dtype_parse(strcmp(value, "bf16") == 0 ? "bfloat16" : value);
        return o->dtype == TN_FLOAT32 || o->dtype == TN_BFLOAT16 ? NULL : "float32 or bf16";
    }
}

int options_read(options *o, int argc, char **argv)
{
    static const struct option names[] = {{"device", required_argument, NULL, 'd'},
                                          {"epochs", required_argument, NULL, 'e'},
                                          {"batch", required_argument, NULL, 'b'},
                                          {"dtype", required_argument, NULL, 'T'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"images", required_argument, NULL, 'i'},
                                          {"data", required_argument, NULL, 'D'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const char *expected;
    int letter, which = 0;
    *o = (options){.data = "/usr/share/datasets/fashion-mnist",
                   .output = "demo-output",
                   .epochs = 3,
                   .batch = 128,
                   .seed = 1,
                   .lr = 4e-3,
                   .weight_decay = 1e-2,
                   .dtype = TN_FLOAT32};
    while ((letter = getopt_long(argc, argv, "h", names, &which)) != -1) {
        if (letter == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        if (letter == '?') return wrong("an option that is not known, or without its value");
        if ((expected = take(o, letter, optarg))) return wrong_value(names[which].name, optarg, expected);
    }
    return optind < argc ? wrong("arguments are not expected") : 0;
}
