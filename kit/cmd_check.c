/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon check`, the conformance suite: reads the options. The suite itself is in check/. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check/check.h"
#include "check/modes.h"
#include "check/partner.h"
#include "cmd.h"

static const char help[] =
    "usage: tenon check PLUGIN.so [OPTIONS]\n"
    "       tenon check --device D [OPTIONS]          a plugin that is installed\n"
    "       tenon check LIB.so --op NS::NAME [OPTIONS]  an operator of a library, or its rows for "
    "aten::NAME\n\n"
    "Checks a device plugin. It is loaded beside the CPU plugin, and its results are compared with the "
    "CPU's; the\n"
    "CPU plugin itself is compared with the reference device.\n\n"
    "  --mode M                 test (default): all tiers; gradient: against finite differences; speed: "
    "operators\n"
    "                           of the workload; coverage: which of them run where, and what to write next;\n"
    "                           precision: errors in units of the last place (ULP)\n"
    "  --device D               acme:1; default: the first of the plugin\n"
    "  --tier N                 only tiers 0 to N, and a missing kernel fails; default: all tiers, and it "
    "does not\n"
    "  --filter RE              only cases whose names match: '^1/reduce/.*float16'; precision: "
    "'/exp/float32$',\n"
    "                           '::gelu.approximate=tanh./'; speed: '^speed/aten::mm/'. --all prints names\n"
    "  --seed N                 of the inputs (default 1)\n"
    "  --jobs N                 processes at once (default: the number of cores, at most 64; for speed 1);\n"
    "                           0: in this one, for a debugger\n"
    "  --isolate                each case in a process of its own\n"
    "  --timeout S              seconds for one case (default 120)\n"
    "  --unsupported FILE       cases that are not run, for good: a pattern ('1/*/float64/*') and a reason a "
    "line\n"
    "  --expected-failures FILE cases that may fail, for now; one that passes fails the run\n"
    "  --golden DIR             the recorded calls in DIR/cases, too (tier 1)\n"
    "  --trace FILE             calls to replay (speed, coverage; default: the installed workload)\n"
    "  --json FILE              everything, for programs; '-' is standard output, without the text\n"
    "  --html FILE              everything, as one page\n"
    "  --op NS::NAME            checks the schema, shape rule, rows, composite and gradient of that "
    "operator, "
    "in the\n"
    "                           layouts that tensors of programs have, and leaks; of the device D, else of "
    "the CPU\n"
    "  --args JSON              its arguments, [{\"t\": [2, 3], \"d\": \"float64\"}, 1], or a file of them "
    "or of\n"
    "                           {\"calls\": [...]}; default: guessed from the schema. Keys of a tensor: t "
    "sizes,\n"
    "                           d dtype, s strides, o storage offset, low, high, seed, offsets\n"
    "  --against FILE           an earlier JSON report: what changed (precision)\n"
    "  --max-ulp N              the greatest error that is allowed; rows above it fail (precision)\n"
    "  --samples N              inputs of each class (precision; default 1000, and all of 16-bit types)\n"
    "  --max-bytes N            the largest call that is measured (speed; default 48 MiB); larger ones are "
    "made\n"
    "                           smaller\n"
    "  --max-seconds N          for all samples together (speed; default 60)\n"
    "  --cpu-time               processor time of the process, the least of the samples (speed; on busy "
    "machines)\n"
    "  --full-size              no smaller calls in place of recorded ones (coverage; slow devices take "
    "minutes)\n"
    "  --all                    print cases that are as expected, too\n"
    "  --partner N              for the suite itself: the other process of a case, on socket N\n\n"
    "Columns of the precision table: max, p99 and mean are the greatest, the 99th percentile and the signed "
    "mean\n"
    "error over all classes of input but denormal; small to denormal (uniform to many for sums) the greatest "
    "of\n"
    "each class; gradient that of the gradient; special values and denormals the behaviour there; same bits "
    "says\n"
    "whether repeats, streams and threads agree; other is the device compared with; before the report of "
    "--against;\n"
    "OpenCL the bound of its full profile.\n\n"
    "Status 0: as expected, 1: not, 2: wrong arguments.\n";

typedef struct mode {
    const char *name;
    int32_t (*run)(check_run *run);
} mode;

static const mode modes[] = {
    {"test", check_test},         {"gradient", check_gradient},   {"speed", check_speed},
    {"coverage", check_coverage}, {"precision", check_precision},
};

enum {
    MODE = 1,
    DEVICE,
    TIER,
    FILTER,
    SEED,
    JOBS,
    ISOLATE,
    TIMEOUT,
    UNSUPPORTED,
    EXPECTED,
    GOLDEN,
    TRACE,
    JSON,
    HTML,
    CPU_TIME,
    FULL_SIZE,
    ALL,
    AGAINST,
    MAX_ULP,
    SAMPLES,
    MAX_BYTES,
    MAX_SECONDS,
    OP,
    ARGS,
    PARTNER
};

static const struct option names[] = {{"mode", required_argument, NULL, MODE},
                                      {"device", required_argument, NULL, DEVICE},
                                      {"tier", required_argument, NULL, TIER},
                                      {"filter", required_argument, NULL, FILTER},
                                      {"seed", required_argument, NULL, SEED},
                                      {"jobs", required_argument, NULL, JOBS},
                                      {"isolate", no_argument, NULL, ISOLATE},
                                      {"timeout", required_argument, NULL, TIMEOUT},
                                      {"unsupported", required_argument, NULL, UNSUPPORTED},
                                      {"expected-failures", required_argument, NULL, EXPECTED},
                                      {"golden", required_argument, NULL, GOLDEN},
                                      {"trace", required_argument, NULL, TRACE},
                                      {"json", required_argument, NULL, JSON},
                                      {"html", required_argument, NULL, HTML},
                                      {"against", required_argument, NULL, AGAINST},
                                      {"max-ulp", required_argument, NULL, MAX_ULP},
                                      {"op", required_argument, NULL, OP},
                                      {"args", required_argument, NULL, ARGS},
                                      {"samples", required_argument, NULL, SAMPLES},
                                      {"max-bytes", required_argument, NULL, MAX_BYTES},
                                      {"max-seconds", required_argument, NULL, MAX_SECONDS},
                                      {"cpu-time", no_argument, NULL, CPU_TIME},
                                      {"full-size", no_argument, NULL, FULL_SIZE},
                                      {"all", no_argument, NULL, ALL},
                                      {"partner", required_argument, NULL, PARTNER},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

static int wrong(const char *what, const char *text)
{
    fprintf(stderr, "tenon check: %s%s%s%s\n%s", what, text ? " '" : "", text ? text : "", text ? "'" : "",
            help);
    return CMD_USAGE;
}

static int whole(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (*end || end == text || *text == '-' || errno || n < least || n > most) return 1;
    *out = n;
    return 0;
}

static int small(const char *text, uint32_t least, uint32_t most, uint32_t *out)
{
    uint64_t n;
    if (whole(text, least, most, &n)) return 1;
    *out = (uint32_t)n;
    return 0;
}

/* Where the text of an option is stored; NULL for options of other types. */
static const char **text_place(check_options *o, int letter)
{
    switch (letter) {
    case MODE:
        return &o->mode;
    case DEVICE:
        return &o->device;
    case FILTER:
        return &o->filter;
    case UNSUPPORTED:
        return &o->unsupported;
    case EXPECTED:
        return &o->expected_failures;
    case GOLDEN:
        return &o->golden;
    case TRACE:
        return &o->trace;
    case JSON:
        return &o->json;
    case HTML:
        return &o->html;
    case OP:
        return &o->op;
    case ARGS:
        return &o->args;
    case AGAINST:
        return &o->against;
    default:
        return NULL;
    }
}

/* One option; 1 when its argument is wrong. */
static int take(check_options *o, int letter, const char *text)
{
    char *end;
    const char **place = text_place(o, letter);
    if (place) {
        *place = text;
        return 0;
    }
    switch (letter) {
    case TIER:
        o->demand_tier = 1;
        return small(text, 0, 4, &o->max_tier);
    case SEED:
        return whole(text, 0, UINT64_MAX, &o->seed);
    case JOBS:
        return small(text, 0, CMD_MAX_JOBS, &o->jobs);
    case ISOLATE:
        o->isolate = 1;
        return 0;
    case TIMEOUT:
        return small(text, 1, 86400, &o->timeout);
    case MAX_ULP:
        o->max_ulp = strtod(text, &end);
        return *end || end == text || !(o->max_ulp > 0);
    case SAMPLES:
        return whole(text, 1, 1000000, &o->samples);
    case MAX_BYTES:
        o->max_bytes = strtod(text, &end);
        return *end || end == text || !(o->max_bytes >= 1);
    case MAX_SECONDS:
        o->max_seconds = strtod(text, &end);
        return *end || end == text || !(o->max_seconds > 0);
    case CPU_TIME:
        o->cpu_time = 1;
        return 0;
    case FULL_SIZE:
        o->full_size = 1;
        return 0;
    case ALL:
        o->all = 1;
        return 0;
    case PARTNER:
        return small(text, 3, 65535, &o->partner);
    default:
        return 1;
    }
}

static int run_mode(const mode *m, const check_options *o)
{
    check_run run = {.options = o};
    int status = m->run(&run);
    if (check_report(&run) && status == CMD_OK) status = CMD_FAILED;
    check_run_finish(&run);
    return status;
}

int cmd_check(int argc, char **argv)
{
    check_options o = {.mode = "test",
                       .seed = 1,
                       .max_tier = 4,
                       .jobs = cmd_default_jobs(),
                       .timeout = 120,
                       .max_bytes = 48.0 * 1048576.0,
                       .max_seconds = 60};
    char what[64];
    int letter, at = 0, jobs_given = 0;
    while ((letter = getopt_long(argc, argv, "h", names, &at)) != -1) {
        if (letter == 'h') {
            fputs(help, stdout);
            return CMD_OK;
        }
        if (letter == '?') return wrong("unknown option, or an option without its argument", NULL);
        jobs_given |= letter == JOBS;
        snprintf(what, sizeof what, "--%s: invalid value", names[at].name);
        if (take(&o, letter, optarg)) return wrong(what, optarg);
    }
    if (!jobs_given && !strcmp(o.mode, "speed")) o.jobs = 1; /* nothing else may run beside a sample */
    if (optind + 1 < argc) return wrong("one plugin at a time; unexpected argument", argv[optind + 1]);
    if (optind < argc) o.plugin = argv[optind];
    if (!o.plugin && !o.device) return wrong("name a plugin, or --device", NULL);
    if (o.partner) return check_partner(&o);
    if (o.args && !o.op) return wrong("--args needs --op", NULL);
    if (o.op) {
        o.mode = "op";
        return run_mode(&(mode){"op", check_custom}, &o);
    }
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, o.mode) == 0) return run_mode(&modes[i], &o);
    }
    return wrong("unknown mode", o.mode);
}
