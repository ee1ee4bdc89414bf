/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
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

/* An option is a text or, with `most`, a whole number from `least` to `most`. */
static const struct {
    const char *name;
    size_t place; /* in options */
    int64_t least, most;
} rows[] = {
    {"--device", offsetof(options, device), 0, 0},
    {"--dtype", offsetof(options, dtype_name), 0, 0},
    {"--data", offsetof(options, data), 0, 0},
    {"--output", offsetof(options, output), 0, 0},
    {"--epochs", offsetof(options, epochs), 1, 100000},
    {"--batch", offsetof(options, batch), 1, 1 << 20},
    {"--seed", offsetof(options, seed), 0, INT64_MAX},
    {"--threads", offsetof(options, threads), 1, 4096},
    {"--images", offsetof(options, train_images), 1, INT64_MAX},
};
#define ROWS (sizeof rows / sizeof *rows)

static int wrong(const char *what, const char *word)
{
    fprintf(stderr, "fashion_mnist: %s%s\n%s", what, word, usage);
    return 2;
}

/* 0, or the exit code after a message. */
static int take(options *o, size_t row, const char *value)
{
    void *place = (char *)o + rows[row].place;
    char *end;
    if (!rows[row].most) {
        memcpy(place, &value, sizeof value);
        return 0;
    }
    errno = 0;
    int64_t n = strtoll(value, &end, 10);
    if (errno || end == value || *end || n < rows[row].least || n > rows[row].most) {
        fprintf(stderr, "fashion_mnist: %s '%s': a number from %lld to %lld is expected\n", rows[row].name,
                value, (long long)rows[row].least, (long long)rows[row].most);
        return 2;
    }
    memcpy(place, &n, sizeof n);
    return 0;
}

int options_read(options *o, int argc, char **argv)
{
    *o = (options){.data = "/usr/share/datasets/fashion-mnist",
                   .output = "demo-output",
                   .dtype_name = "float32",
                   .epochs = 3,
                   .batch = 128,
                   .seed = 1,
                   .lr = 4e-3,
                   .weight_decay = 1e-2};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value;
        size_t length = strcspn(word, "="), row = 0; /* "--seed 1" or "--seed=1" */
        if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        }
        while (row < ROWS && (strlen(rows[row].name) != length || strncmp(word, rows[row].name, length) != 0))
            row++;
        if (row == ROWS) return wrong("there is no option ", word);
        value = word[length] ? word + length + 1 : argv[++i];
        if (!value) return wrong("a value is missing after ", word);
        int status = take(o, row, value);
        if (status) return status;
    }
    o->dtype = tn_dtype_parse(strcmp(o->dtype_name, "bf16") == 0 ? "bfloat16" : o->dtype_name);
    if (o->dtype == TN_FLOAT32 || o->dtype == TN_BFLOAT16) return 0;
    return wrong("--dtype is float32 or bf16, not ", o->dtype_name);
}
