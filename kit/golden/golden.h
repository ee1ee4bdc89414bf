/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden cases: recorded calls with their results, gradients and refusals, run through the public interface.
 * A folder holds cases/NAME.jsonl (one call a line) and cases/NAME.safetensors (its tensors).
 */
#ifndef TENON_KIT_GOLDEN_H
#define TENON_KIT_GOLDEN_H

#include <cjson/cJSON.h>
#include <tenon/tenon.h>

enum { GOLDEN_PASSED, GOLDEN_FAILED, GOLDEN_ACCEPTED, GOLDEN_ABSENT, GOLDEN_OUTCOMES };

#define GOLDEN_FAR      1e9
#define GOLDEN_MAX_RANK 128 /* refused calls have more dimensions than a tensor may have */

/* The outcome of one call. */
typedef struct golden_result {
    int32_t outcome;
    int32_t same_text; /* a refusal with the recorded text */
    double difference; /* largest, of a failure in values */
    double tolerances; /* how many times the tolerance of its element a difference is, at most GOLDEN_FAR */
    char reason[480];
} golden_result;

/* The file of tensors that belongs to the cases in hand, and where they run. */
typedef struct golden_file {
    tn_context *ctx;
    tn_safetensors *tensors;
    tn_device device;
    /* Called with 1 before the call under test and before its gradients, with 0 after each; or NULL. What is
     * made and compared in between is not watched. */
    void (*watch)(void *user, int on);
    void *user;
} golden_file;

/* The field of a line that is missing or of the wrong kind, or NULL. Files are input: nothing in them is
 * trusted. */
const char *golden_damage(const cJSON *line);
/* An integer of a line, also one written as a string (beyond 2^53); out of range ones become the nearest. */
int64_t golden_integer(const cJSON *item);
/* Runs one line. */
void golden_case(const golden_file *file, const cJSON *line, golden_result *out);
/* A tensor of a line on the file's device, NULL and a failed scope if it cannot be made. */
tn_tensor *golden_tensor(const golden_file *file, tn_scope *s, const cJSON *entry);
/* An argument of a line. Tensors go through golden_tensor. */
tn_value golden_argument(const golden_file *file, tn_scope *s, const cJSON *entry);
/* Compares a tensor with an entry of the line. 0 and a reason if they differ. */
int32_t golden_compare(const golden_file *file, tn_scope *s, tn_tensor *got, const cJSON *want, double rtol,
                       double atol, int32_t values, const char *what, golden_result *out);

#endif
