/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of `tenon`, one file each (cmd_NAME.c), listed in tenon.c. All are ordinary clients of the
 * public headers. A command gets its own arguments, with its name as argv[0], and returns the exit status:
 * 0 success, 1 something does not work, 2 wrong arguments.
 */
#ifndef TENON_KIT_CMD_H
#define TENON_KIT_CMD_H

#include <stdint.h>
#include <stdio.h>

#define CMD_OK     0
#define CMD_FAILED 1
#define CMD_USAGE  2

typedef struct tn_context tn_context;

/* "host", "discrete", ...: the name of a TN_DEVICE_... class. */
const char *device_class_name(uint32_t device_class);

/* Devices of all plugins for tn_device_at, also those of hardware that was there before. */
int32_t cmd_device_count(tn_context *ctx);
/* The first device before device i that is the same hardware, written to `text`; NULL if there is none. */
const char *cmd_same_hardware(tn_context *ctx, int32_t i, char text[64]);

/* From now on SIGTERM does not end this process: a long command looks at cmd_has_ended, and then reports what it has. `timeout` sends
 * it to children, too: they pass over it, and the command ends them. */
void cmd_catch_end(void);
int cmd_has_ended(void);
void cmd_pass_over_end(void);

int cmd_devices(int argc, char **argv);
int cmd_ops(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_new_app(int argc, char **argv);
int cmd_new_operators(int argc, char **argv);
int cmd_new_plugin(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_file(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_golden(int argc, char **argv);
int cmd_replay(int argc, char **argv);

/* Flags and operands of a command, as cmd_parse finds them. */
#define CMD_MAX_FLAGS 8
typedef struct cmd_options {
    const char *help;                 /* text of --help */
    const char *flags[CMD_MAX_FLAGS]; /* "--json", ...; NULL ends */
    int max_operands;
    int set[CMD_MAX_FLAGS]; /* out: flag i was given */
    const char *operand;    /* out: the operand, or NULL */
} cmd_options;
/* How many processes run cases at once if the user does not say: one for each core. */
#define CMD_MAX_JOBS 64
uint32_t cmd_default_jobs(void);

/* 0: continue. Else the caller returns *out_status at once: help was printed, or the arguments are wrong. */
int cmd_parse(cmd_options *options, int argc, char **argv, int *out_status);
/* A context (`flags`: TN_CONTEXT_...) that logs to stderr as TENON_LOG asks for, or NULL with a message
 * printed. */
tn_context *cmd_context(uint32_t flags);
/* From now on lines of the log up to TN_LOG_INFO go to `line` instead; NULL: to stderr again. */
void cmd_listen(void (*line)(void *user, const char *text), void *user);

/* ---- JSON, written as it goes ---- */

typedef struct json {
    FILE *file;
    uint32_t depth;
    uint32_t count[16]; /* members written so far, per level */
} json;
/* `key` is NULL inside arrays and at the top. */
void json_open(json *j, const char *key, char bracket);
/* Ends with a newline at the top. */
void json_close(json *j, char bracket);
/* NULL text is null. */
void json_text(json *j, const char *key, const char *text);
/* A text for each key, up to a key that is NULL: JSON_TEXTS(j, {"name", name}, {"kind", kind}). */
typedef struct json_member {
    const char *key, *text;
} json_member;
void json_texts(json *j, const json_member *members);
#define JSON_TEXTS(j, ...) json_texts(j, (const json_member[]){__VA_ARGS__, {NULL, NULL}})
void json_real(json *j, const char *key, double number);
void json_number(json *j, const char *key, uint64_t number);
void json_flag(json *j, const char *key, int on);

#endif
