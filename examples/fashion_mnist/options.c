/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
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

/* A whole number of at least `least`, else -1. */
static int64_t whole(const char *text, int64_t least)
{
    char *end;
    int64_t n = strtoll(text, &end, 10);
    return *end || n < least ? -1 : n;
}

static int take(options *o, int letter, const char *value)
{
    switch (letter) {
    case 'd':
        o->device = value;
        return 0;
    case 'e':
        o->epochs = whole(value, 1);
        return o->epochs < 0;
    case 'b':
        o->batch = whole(value, 1);
        return o->batch < 0;
    case 'i':
        o->train_images = whole(value, 1);
        return o->train_images < 0;
    case 't':
        o->threads = whole(value, 1);
        return o->threads < 0;
    case 's':
        o->seed = (uint64_t)whole(value, 0);
        return (int64_t)o->seed < 0;
    case 'D':
        o->data = value;
        return 0;
    case 'o':
        o->output = value;
        return 0;
    case 'T':
        o->dtype = tn_dtype_parse(value[0] == 'b' && value[1] == 'f' ? "bfloat16" : value);
        return o->dtype != TN_FLOAT32 && o->dtype != TN_BFLOAT16;
    default:
        return 1;
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
    int letter;
    *o = (options){.data = "/usr/share/datasets/fashion-mnist",
                   .output = "demo-output",
                   .epochs = 3,
                   .batch = 128,
                   .seed = 1,
                   .lr = 4e-3,
                   .weight_decay = 1e-2,
                   .dtype = TN_FLOAT32};
    while ((letter = getopt_long(argc, argv, "h", names, NULL)) != -1) {
        if (letter == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        if (letter == '?') return wrong("unknown option");
        if (take(o, letter, optarg)) return wrong("bad value of an option");
    }
    return optind < argc ? wrong("arguments are not expected") : 0;
}
