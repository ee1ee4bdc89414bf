/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what events.py reads: write FOLDER. */
#include <math.h>
#include <stdio.h>
#include <tenon/progress.h>

static int write_values(tn_scope *s, tn_events *e)
{
    const float numbers[] = {0, 1, 1, 2, 4, NAN, INFINITY, 4};
    const uint8_t pixels[] = {0, 128, 255, 1, 2, 3};
    const float red[] = {1, 0.5f, 0, 0, -1, 2};
    tn_tensor *n = tn_from_data(s, TN_FLOAT32, TN_INTS(8), numbers, TN_CPU);
    int status = tn_events_scalar(e, "loss", 1, 0.5) | tn_events_scalar(e, "loss", -2, NAN);
    status |= tn_events_histogram(s, e, "weights", 3, n);
    status |= tn_events_histogram(s, e, "integers", 4, tn_arange(s, 4, .dtype = TN_INT64));
    status |= tn_events_histogram(s, e, "nothing", 5, tn_empty(s, TN_INTS(0)));
    status |= tn_events_image(s, e, "grey", 6, tn_from_data(s, TN_UINT8, TN_INTS(2, 3), pixels, TN_CPU));
    status |= tn_events_image(s, e, "colour", 7, tn_from_data(s, TN_FLOAT32, TN_INTS(3, 1, 2), red, TN_CPU));
    for (int i = 0; i < 2000; i++) status |= tn_events_scalar(e, "many", i, i);
    return status;
}

int main(int argc, char **argv)
{
    tn_context *ctx;
    tn_events *e;
    if (argc != 2 || tn_context_create(NULL, &ctx) || tn_events_create(argv[1], &e)) return 1;
    tn_scope *s = tn_scope_open(ctx);
    int status = write_values(s, e);
    if (status) fprintf(stderr, "%s\n", tn_last_error()->message);
    /* Refused calls: the scope fails, the file goes on. */
    tn_scope *own = tn_scope_open_child(s, NULL);
    status |= tn_events_image(own, e, "bad", 0, tn_zeros(own, TN_INTS(2, 3, 4))) != TN_E_ARGUMENT;
    tn_scope_close(own);
    status |=
        tn_events_scalar(e, "", 0, 0) != TN_E_ARGUMENT || tn_events_scalar(NULL, "x", 0, 0) != TN_E_ARGUMENT;
    status |= tn_events_scalar(e, "last", 9, 9);
    status |= tn_events_destroy(e);
    tn_scope_close(s);
    tn_events *second;
    status |= tn_events_create(argv[1], &second) || tn_events_destroy(second); /* a file of its own */
    status |= tn_events_create("/dev/null/folder", &second) != TN_E_IO || second != NULL;
    if (!status && tn_events_create("/dev/full/..", &second) == TN_OK) status = 1;
    tn_context_destroy(ctx);
    return status != 0;
}
