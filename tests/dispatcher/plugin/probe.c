/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that crash, hang or leave while they are loaded: the verdict is read, and this process goes on. */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "dispatcher/plugin/probe.h"

#define PATIENCE_MS 60000 /* nothing that is probed with it takes long: a busy machine may */

static int32_t probe(const char *name, uint32_t timeout_ms, tni_reason *reason)
{
    return tni_probe_run(getenv("TENON_TEST_PROBE"), skewed(name), timeout_ms, reason);
}

static void expect_no_child(void)
{
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
    cr_assert_eq(errno, ECHILD);
}

Test(probe, a_sound_plugin_passes)
{
    tni_reason reason = {""};
    cr_assert_eq(probe("sound", PATIENCE_MS, &reason), TN_OK, "%s", reason.text);
    cr_assert_eq(probe("operators", PATIENCE_MS, &reason), TN_OK, "%s", reason.text);
    expect_no_child();
}

Test(probe, verdicts)
{
    static const char *const cases[][2] = {
        {"constructor_crashes", "probe: crashed with SIGABRT (6) while loading"},
        {"constructor_exits", "probe: ended the process with status 3 while loading"},
        {"init_crashes", "probe: crashed with SIGABRT (6) in init"},
        {"init_fails", "probe: init: no licence for this machine"},
        {"declines", "probe: entry: this plugin wants generation 9"},
        {"unresolved", "undefined symbol: tenon_test_nobody_defines_this"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tni_reason reason = {""};
        /* ThreadSanitizer looks away during dlopen, and ends a process that leaves from there in its own way. */
        if (i == 1 && TN_SANITIZER == TN_SANITIZER_THREAD) continue;
        int32_t status = probe(cases[i][0], PATIENCE_MS, &reason);
        cr_assert_eq(status, i < 3 ? TN_E_CONTRACT : TN_E_UNSUPPORTED, "%s: %s", cases[i][0], reason.text);
        assert_contains(reason.text, cases[i][1]);
    }
    expect_no_child();
}

/* The numbers are Linux's on this architecture, as <signal.h> has them. */
Test(probe, signals_by_name)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"SEGV", SIGSEGV}, {"BUS", SIGBUS},   {"ILL", SIGILL},   {"FPE", SIGFPE},
                   {"KILL", SIGKILL}, {"TERM", SIGTERM}, {"TRAP", SIGTRAP}, {"SYS", SIGSYS}};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char name[32], expected[80];
        tni_reason reason = {""};
        snprintf(name, sizeof name, "init_raises_%s", signals[i].name);
        snprintf(expected, sizeof expected, "probe: crashed with SIG%s (%d) in init", signals[i].name,
                 signals[i].number);
        cr_expect_eq(probe(name, PATIENCE_MS, &reason), TN_E_CONTRACT);
        cr_expect_str_eq(reason.text, expected);
    }
    tni_reason reason = {""};
    cr_expect_eq(probe("init_raises_USR1", PATIENCE_MS, &reason), TN_E_CONTRACT);
    assert_contains(reason.text, "probe: crashed with a signal (");
    expect_no_child();
}

/* A helper that is not ours: what it writes is read to its end and judged all the same. */
Test(probe, strange_helpers)
{
    static const struct {
        const char *script;
        int32_t status;
        const char *text;
    } cases[] = {
        {"exit 0", TN_E_CONTRACT, "probe: ended the process with status 0 at start"},
        {"echo ok >&3; exit 1", TN_E_CONTRACT, "probe: ended the process with status 1 at start"},
        {"echo ok >&3", TN_OK, ""},
        {"i=0; while [ $i -lt 600 ]; do echo filler >&3; i=$((i+1)); done; echo ok >&3", TN_E_CONTRACT,
         "probe: ended the process with status 0 at start"}, /* the report is cut */
        {"exec 3>&-; sleep 5", TN_E_CONTRACT, "probe: did not end within 700 ms at start"},
        {"echo 'stage one' >&3; echo 'stage two' >&3; echo 'fail because' >&3; exit 4", TN_E_UNSUPPORTED,
         "probe: because"},
    };
    char path[PATH_MAX], folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", make_folder());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512], name[16];
        tni_reason reason = {""};
        snprintf(text, sizeof text, "#!/bin/sh\n%s\n", cases[i].script);
        snprintf(name, sizeof name, "helper%zu", i);
        write_text(folder, name, text);
        snprintf(path, sizeof path, "%.3000s/%s", folder, name);
        cr_assert_eq(chmod(path, 0755), 0);
        cr_expect_eq(tni_probe_run(path, "any", i == 4 ? 700 : PATIENCE_MS, &reason), cases[i].status,
                     "%zu: %s", i, reason.text);
        if (cases[i].status) cr_expect_str_eq(reason.text, cases[i].text);
    }
    expect_no_child();
    remove_folder(folder);
}

Test(probe, a_plugin_that_hangs_is_ended)
{
    tni_reason reason = {""};
    char text[64];
    uint32_t limit = 300; /* more on a machine that is too slow to start a process within it */
    do {
        snprintf(text, sizeof text, "probe: did not end within %u ms while loading", limit);
        cr_assert_eq(probe("constructor_hangs", limit, &reason), TN_E_CONTRACT);
        limit *= 4;
    } while (strstr(reason.text, " at start") && limit < 100000);
    cr_assert_str_eq(reason.text, text);
    expect_no_child();
}

Test(probe, no_helper)
{
    tni_reason reason = {""};
    cr_assert_eq(tni_probe_run("", skewed("sound"), 1000, &reason), TN_E_STATE);
    assert_contains(reason.text, "it cannot be probed, since the helper 'tenon-probe' is not installed");
    cr_assert_eq(tni_probe_run("/nowhere/tenon-probe", skewed("sound"), 1000, &reason), TN_E_STATE);
    assert_contains(reason.text, "cannot start '/nowhere/tenon-probe'");
    expect_no_child();
}

Test(probe, a_program_that_ignores_its_children)
{
    tni_reason reason = {""};
    signal(SIGCHLD, SIG_IGN); /* then nobody can ask how a child ended: the report decides */
    cr_assert_eq(probe("sound", PATIENCE_MS, &reason), TN_OK, "%s", reason.text);
    cr_assert_eq(probe("constructor_crashes", PATIENCE_MS, &reason), TN_E_CONTRACT);
    cr_assert_str_eq(reason.text, "probe: ended without a verdict while loading");
}

static void *probe_often(void *user)
{
    for (int i = 0; i < 5; i++) {
        tni_reason reason = {""};
        if (probe((const char *)user, PATIENCE_MS, &reason) == TN_OK) return NULL;
    }
    return user;
}

Test(probe, several_threads_at_once)
{
    pthread_t threads[2];
    void *result;
    static char fails[] = "init_fails";
    for (int i = 0; i < 2; i++) cr_assert_eq(pthread_create(&threads[i], NULL, probe_often, fails), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &result);
        cr_assert_eq(result, fails);
    }
    expect_no_child();
}

Test(probe, who_is_probed)
{
    tni_plugin_settings s = {0};
    cr_assert(tni_probe_wanted(&s, 0));
    cr_assert_not(tni_probe_wanted(&s, 1));
    s.probe = "always";
    cr_assert(tni_probe_wanted(&s, 1));
    s.probe = "never";
    cr_assert_not(tni_probe_wanted(&s, 0));
    s.probe = "unknown";
    cr_assert(tni_probe_wanted(&s, 0));
    cr_assert_not(tni_probe_wanted(&s, 1));
}

/* The helper is looked for beside the library (this program, here) and in the configured folder. */
Test(probe, the_helper_that_is_not_beside_the_library)
{
    char path[PATH_MAX], few[8];
    cr_assert_eq(tni_probe_helper(path, sizeof path), path);
    cr_assert(!path[0] || access(path, X_OK) == 0, "%s", path);
    cr_assert_str_eq(tni_probe_helper(few, sizeof few), "", "no program has a name that is cut");
}
