/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that crash, hang or leave while they are loaded: the verdict is read, and this process goes on. */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include "dispatcher/plugin/probe.h"

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
    cr_assert_eq(probe("sound", 10000, &reason), TN_OK, "%s", reason.text);
    cr_assert_eq(probe("operators", 10000, &reason), TN_OK, "%s", reason.text);
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
        /* ThreadSanitizer looks away during dlopen, and ends a process that leaves from there in its own way.
         */
        if (i == 1 && TN_SANITIZER == TN_SANITIZER_THREAD) continue;
        int32_t status = probe(cases[i][0], 10000, &reason);
        cr_assert_eq(status, i < 3 ? TN_E_CONTRACT : TN_E_UNSUPPORTED, "%s: %s", cases[i][0], reason.text);
        assert_contains(reason.text, cases[i][1]);
    }
    expect_no_child();
}

Test(probe, a_plugin_that_hangs_is_ended)
{
    tni_reason reason = {""};
    cr_assert_eq(probe("constructor_hangs", 300, &reason), TN_E_CONTRACT);
    cr_assert_str_eq(reason.text, "probe: did not end within 300 ms while loading");
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
    cr_assert_eq(probe("sound", 10000, &reason), TN_OK, "%s", reason.text);
    cr_assert_eq(probe("constructor_crashes", 10000, &reason), TN_E_CONTRACT);
    cr_assert_str_eq(reason.text, "probe: ended without a verdict while loading");
}

static void *probe_often(void *user)
{
    for (int i = 0; i < 5; i++) {
        tni_reason reason = {""};
        if (probe((const char *)user, 10000, &reason) == TN_OK) return NULL;
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
