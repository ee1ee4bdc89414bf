/* SPDX-License-Identifier: Apache-2.0 */
/* The `tenon` command: finds the subcommand and runs it. A new one is a file cmd_NAME.c and a line in the
 * table. */
#include <stdlib.h>
#include <string.h>
#include <tenon/context.h>
#include <tenon/device.h>
#include <unistd.h>
#include "cmd.h"

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} command;

static const command commands[] = {
    {"devices", cmd_devices, "the devices and their facts, in order of preference"},
    {"ops", cmd_ops, "operators, their schemas, kinds, gradients and kernels"},
    {"doctor", cmd_doctor, "the plugins, what became of each, and what does not work"},
    {"check", cmd_check, "the conformance suite: what a plugin does right, wrong, or not at all"},
    {"new-app", cmd_new_app, "writes a program to begin with"},
    {"new-operators", cmd_new_operators, "writes an operator library to begin with"},
    {"new-plugin", cmd_new_plugin, "writes a device plugin to begin with"},
    {"replay", cmd_replay,
     "plays a recording of a plugin's calls (TENON_RECORD=FILE) on a plugin and compares"},
    {"file", cmd_file, "lists, converts, compares and checks files of tensors"},
    {"bench", cmd_bench, "measures the devices, for programs that choose the fastest"},
    {"profile", cmd_profile, "prints the table of a profile (TENON_PROFILE=FILE)"},
    {"golden", cmd_golden, "replays recorded calls of operators and compares the results"},
};

static void print_help(FILE *file)
{
    fputs("usage: tenon COMMAND [OPTIONS]\n\n", file);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(file, "  %-13s %s\n", commands[i].name, commands[i].summary);
    fputs("\n'tenon COMMAND --help' says more. 'tenon --version' prints the version.\n", file);
}

static int print_version(void)
{
    printf("tenon %s (ABI %u.%u, generation %u)\n", tn_version(), TN_ABI_MAJOR, TN_ABI_MINOR,
           TN_ABI_GENERATION);
    return CMD_OK;
}

uint32_t cmd_default_jobs(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > CMD_MAX_JOBS ? CMD_MAX_JOBS : (uint32_t)cores;
}

int cmd_parse(cmd_options *o, int argc, char **argv, int *out_status)
{
    int operands = 0;
    *out_status = CMD_USAGE;
    for (int i = 1; i < argc; i++) {
        int flag = 0;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(o->help, stdout);
            *out_status = CMD_OK;
            return 1;
        }
        while (o->flags[flag] && strcmp(o->flags[flag], argv[i]) != 0) flag++;
        if (o->flags[flag]) {
            o->set[flag] = 1;
        } else if (argv[i][0] != '-' && operands < o->max_operands) {
            o->operand = argv[i];
            operands++;
        } else {
            fprintf(stderr, "tenon %s: unexpected argument '%s'\n%s", argv[0], argv[i], o->help);
            return 1;
        }
    }
    return 0;
}

static void (*listener)(void *user, const char *text);
static void *listener_user;

void cmd_listen(void (*line)(void *user, const char *text), void *user)
{
    listener = line;
    listener_user = user;
}

static void print_log(void *user, int32_t level, const char *text)
{
    (void)user;
    if (listener && level <= TN_LOG_INFO)
        listener(listener_user, text);
    else if (level == TN_LOG_ERROR)
        fprintf(stderr, "tenon: error: %s\n", text);
}

tn_context *cmd_context(uint32_t flags)
{
    tn_context_options options = {.size = sizeof(options), .flags = flags, .log = print_log};
    tn_context *ctx = NULL;
    if (getenv("TENON_LOG") && !listener) options.log = NULL; /* the library prints what is asked for */
    if (tn_context_create(&options, &ctx) == TN_OK) return ctx;
    const tn_error *error = tn_last_error();
    fprintf(stderr, "tenon: %s\n", error ? error->message : "no context");
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CMD_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) return print_version();
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CMD_OK;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) != 0) continue;
        int status = commands[i].run(argc - 1, argv + 1);
        return fflush(stdout) == 0 ? status : CMD_FAILED;
    }
    fprintf(stderr, "tenon: no command '%s'\n\n", argv[1]);
    print_help(stderr);
    return CMD_USAGE;
}
