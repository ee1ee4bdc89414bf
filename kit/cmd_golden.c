/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon golden`: recorded calls, run through the public interface and compared. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"
#include "golden/run.h"

static const char help[] =
    "usage: tenon golden DIR [OPTIONS]\n\n"
    "Runs the recorded calls in DIR/cases and compares results, changed arguments, gradients and refusals.\n"
    "Operators that ran on the CPU because the device has no kernel are listed, the most frequent first.\n\n"
    "  --device D      cpu (default), reference:0, ...\n"
    "  --filter RE     only operators whose name matches, e.g. 'aten::add($|\\.)'\n"
    "  --json FILE     scores per operator, all failures, and what ran on the CPU\n"
    "  --jobs N        processes at once (default: the number of cores, at most 64)\n"
    "  --timeout S     seconds for one file of cases (default 300)\n"
    "  --failures      print each failure with its case\n"
    "  --all           print operators without failures, too\n\n"
    "Status 0: all cases passed, 1: some did not, 2: wrong arguments, nothing to run, or a file that could "
    "not\n"
    "be read or written.\n";

static int whole(const char *text, uint32_t least, uint32_t most, uint32_t *out)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*end || n < least || n > most) return 1;
    *out = (uint32_t)n;
    return 0;
}

static int wrong(const char *what)
{
    fprintf(stderr, "tenon golden: %s\n%s", what, help);
    return CMD_USAGE;
}

int cmd_golden(int argc, char **argv)
{
    static const struct option names[] = {{"device", required_argument, NULL, 'd'},
                                          {"filter", required_argument, NULL, 'f'},
                                          {"json", required_argument, NULL, 'J'},
                                          {"jobs", required_argument, NULL, 'j'},
                                          {"timeout", required_argument, NULL, 't'},
                                          {"failures", no_argument, NULL, 'v'},
                                          {"all", no_argument, NULL, 'a'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    golden_options o = {.jobs = cmd_default_jobs(), .timeout = 300};
    int letter;
    while ((letter = getopt_long(argc, argv, "h", names, NULL)) != -1) {
        int bad = 0;
        switch (letter) {
        case 'd':
            o.device = optarg;
            break;
        case 'f':
            o.filter = optarg;
            break;
        case 'J':
            o.json = optarg;
            break;
        case 'j':
            bad = whole(optarg, 1, CMD_MAX_JOBS, &o.jobs);
            break;
        case 't':
            bad = whole(optarg, 1, 86400, &o.timeout);
            break;
        case 'v':
            o.verbose = 1;
            break;
        case 'a':
            o.all = 1;
            break;
        case 'h':
            fputs(help, stdout);
            return CMD_OK;
        default:
            return wrong("unknown option");
        }
        if (bad) return wrong("a number is out of range or not a number");
    }
    if (optind + 1 != argc)
        return wrong(optind < argc ? "one folder at a time" : "name the folder of recorded calls");
    o.folder = argv[optind];
    return golden_run(&o);
}
