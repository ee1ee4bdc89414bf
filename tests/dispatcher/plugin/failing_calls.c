/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each step of the loader once more with its n-th system call failing, for n = 1 and on until none fails any more:
 * an error with a text or a step that is left out, never a wrong answer; no descriptor and no child process left. A
 * call that was interrupted is made again, so that nothing changes.
 */
#include "fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <tenon/inspect.h>
#include <unistd.h>
#include "dispatcher/plugin/allow.h"
#include "dispatcher/plugin/discovery.h"
#include "dispatcher/plugin/manifest.h"
#include "dispatcher/plugin/probe.h"
#include "dispatcher/plugin/sha256.h"
#include "dispatcher/plugin/threads.h"
#include "dispatcher/plugin/trust.h"
#include "dispatcher/plugin/verdict.h"
#include "../../core/system_calls.h"

static char folder[PATH_MAX];

static void setup(void)
{
    snprintf(folder, sizeof folder, "%s", make_folder());
    setenv("XDG_CACHE_HOME", folder, 1);
}

static void teardown(void)
{
    remove_folder(folder);
}

TestSuite(failing_calls, .init = setup, .fini = teardown);

/* Runs a step with each of its calls failing. `step` checks its own answer; it knows the errno. Returns the calls. */
static int32_t fail_each_call(int error, void (*step)(int error))
{
    int32_t n = 1, goes_on = 1;
    uint32_t before = count_entries("/proc/self/fd");
    for (; goes_on; n++) {
        fail_system_call(n, error);
        step(error);
        goes_on = system_call_failed();
        cr_assert_eq(count_entries("/proc/self/fd"), before, "call %d: descriptors", n);
        cr_assert(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "call %d: a child is left", n);
        cr_assert_lt(n, 1000);
    }
    return n - 2;
}

/* ---- Files --------------------------------------------------------------------------------------------- */

static int open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(fd >= 0, "%s", path);
    return fd;
}

static const char *manifest_path(void)
{
    static char path[PATH_MAX + 16];
    write_text(folder, "x.json", "{\"tenon_manifest\": 1, \"name\": \"skewed\", \"library\": \"libx.so\"}");
    snprintf(path, sizeof path, "%s/x.json", folder);
    return path;
}

static int file; /* opened before calls fail */

/* 1 if no call failed, or one was interrupted and made again: then the name was read. */
static int must_succeed(int error, int32_t status, const tni_reason *reason, const char *name)
{
    if (system_call_failed() && error != EINTR) return 0;
    cr_assert_eq(status, TN_OK, "%s", reason->text);
    cr_assert_str_eq(name, "skewed");
    return 1;
}

static void read_manifest(int error)
{
    tni_manifest m;
    tni_reason reason = {""};
    int32_t status = tni_manifest_read(file, &m, &reason);
    if (must_succeed(error, status, &reason, m.name)) return;
    cr_assert_eq(status, TN_E_IO);
    cr_assert_str_eq(reason.text, error == EIO ? "manifest: cannot be read: Input/output error"
                                               : "manifest: cannot be read: the file became shorter");
}

Test(failing_calls, manifest)
{
    file = open_file(manifest_path());
    cr_assert_eq(fail_each_call(EIO, read_manifest), 2); /* fstat and pread */
    fail_system_call(2, RETURNS_ZERO);
    read_manifest(RETURNS_ZERO);
    fail_system_call(2, EINTR);
    read_manifest(EINTR);
    close(file);
}

static void read_block(int error)
{
    tni_elf_info info;
    tni_reason reason = {""};
    int32_t status = tni_elf_info_read(file, &info, &reason);
    if (must_succeed(error, status, &reason, info.info.name)) return;
    cr_assert_eq(status, TN_E_IO);
    assert_contains(reason.text, "cannot read ");
    assert_contains(reason.text, error == EIO ? ": Input/output error" : ": the file became shorter");
}

Test(failing_calls, block_of_a_library)
{
    static const char *const names[] = {"gnu_hash", "sysv_hash"};
    for (int i = 0; i < 2; i++) {
        file = open_file(skewed(names[i]));
        int32_t calls = fail_each_call(EIO, read_block);
        cr_assert_gt(calls, 10);
        for (int32_t n = 2; n <= calls; n++) { /* the first is fstat, which is never interrupted */
            fail_system_call(n, EINTR);
            read_block(EINTR);
            fail_system_call(n, RETURNS_ZERO);
            read_block(RETURNS_ZERO);
        }
        close(file);
    }
}

static void hash_file(int error)
{
    char text[TNI_SHA256_TEXT_BYTES] = "";
    cr_assert_eq(lseek(file, 0, SEEK_SET), 0);
    int32_t done = tni_sha256_file(file, text);
    if (!system_call_failed() || error == EINTR)
        cr_assert_str_eq(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    else
        cr_assert_eq(done, 0);
}

Test(failing_calls, hash)
{
    char path[PATH_MAX + 16];
    write_text(folder, "abc", "abc"); /* whose hash is in the standard */
    snprintf(path, sizeof path, "%s/abc", folder);
    file = open_file(path);
    cr_assert_gt(fail_each_call(EIO, hash_file), 0);
    cr_assert_gt(fail_each_call(EINTR, hash_file), 0);
    close(file);
}

/* ---- The probe ----------------------------------------------------------------------------------------- */

static void probe(int error)
{
    tni_reason reason = {""};
    int32_t status = tni_probe_run(getenv("TENON_TEST_PROBE"), skewed("sound"), 3000, &reason);
    int32_t failed = system_call_failed();
    if (!failed || error == EINTR) cr_assert_eq(status, TN_OK, "%s", reason.text);
    cr_assert(status == TN_OK || strncmp(reason.text, "probe: ", 7) == 0, "%d: %s", status, reason.text);
    cr_assert(status == TN_OK || status == TN_E_STATE || status == TN_E_CONTRACT, "%d", status);
}

Test(failing_calls, probe)
{
    cr_assert_gt(fail_each_call(EMFILE, probe), 10);
}

/* Calls that can be interrupted come after the helper has been started; spawning gives no EINTR. */
Test(failing_calls, interrupted_probe)
{
    int32_t first = 1;
    for (int32_t ready = 0; !ready; first++) {
        tni_reason reason = {""};
        fail_system_call(first, EMFILE);
        (void)tni_probe_run(getenv("TENON_TEST_PROBE"), skewed("sound"), 3000, &reason);
        cr_assert(system_call_failed());
        ready = !strstr(reason.text, "Too many open files");
    }
    for (int32_t n = first - 1; n < first + 4; n++) {
        fail_system_call(n, EINTR);
        probe(EINTR);
    }
}

/* ---- Verdicts ------------------------------------------------------------------------------------------ */

static char verdict_path[PATH_MAX + 256], library[PATH_MAX + 16];

static void remember(int error)
{
    tni_verdict v;
    tni_reason reason = {"probe: crashed"}, found = {""};
    int32_t status = -1;
    (void)error;
    tni_verdict_locate(library, &v);
    cr_assert(!v.path[0] || strcmp(v.path, verdict_path) == 0, "%s", v.path);
    tni_verdict_write(&v, TN_E_CONTRACT, &reason);
    if (!tni_verdict_read(&v, &status, &found)) return;
    cr_assert_eq(status, TN_E_CONTRACT);
    assert_contains(found.text, "probe: crashed (probed at ");
}

Test(failing_calls, verdict)
{
    char cache[PATH_MAX + 16];
    tni_verdict v;
    write_text(folder, "a", "one");
    snprintf(library, sizeof library, "%s/a", folder);
    tni_verdict_locate(library, &v);
    cr_assert(v.path[0]);
    snprintf(verdict_path, sizeof verdict_path, "%s", v.path);
    cr_assert_gt(fail_each_call(EACCES, remember), 8);
    snprintf(cache, sizeof cache, "%s/tenon/probe", folder);
    cr_assert_leq(count_entries(cache), 1, "a half-written file was left");
}

/* ---- Discovery ----------------------------------------------------------------------------------------- */

static tn_context *ctx;

static void discover(int error)
{
    const tni_plugin_settings settings = {.path = folder};
    tni_discovery d;
    (void)error;
    cr_assert_eq(tni_discover(ctx, &settings, &d), TN_OK);
    int32_t failed = system_call_failed();
    cr_assert(failed || d.candidates.count == 1);
    for (uint32_t i = 0; i < d.candidates.count; i++) {
        const tni_candidate *c = tni_candidate_at(&d, i);
        int32_t ready = c->state == TNI_CANDIDATE_READY;
        cr_assert(ready || (failed && c->state == TN_CANDIDATE_FAILED), "%s", c->reason);
        cr_assert_eq(!ready, c->reason[0] != 0);
    }
    tni_discovery_finish(&d);
}

Test(failing_calls, discovery)
{
    char path[PATH_MAX + 16];
    size_t count;
    unsigned char *bytes = read_file(skewed("sound"), &count);
    ctx = plain_context();
    (void)manifest_path();
    snprintf(path, sizeof path, "%s/libx.so", folder);
    write_file(path, bytes, count);
    free(bytes);
    cr_assert_gt(fail_each_call(EACCES, discover), 10);
    tn_context_destroy(ctx);
}

static void allow(int error)
{
    tni_reason reason = {""};
    (void)error;
    int32_t status = tni_allow_check(file, "abc", &reason);
    if (!system_call_failed()) {
        cr_assert_eq(status, TN_OK, "%s", reason.text);
        return;
    }
    cr_assert(status == TN_OK || reason.text[0]);
}

Test(failing_calls, list_of_allowed_libraries)
{
    char path[PATH_MAX + 16];
    write_text(folder, "abc", "abc");
    write_text(folder, "allow",
               "a line that is much longer than any hash and has none in it\n"
               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n");
    snprintf(path, sizeof path, "%s/allow", folder);
    setenv("TENON_PLUGIN_ALLOW", path, 1);
    snprintf(path, sizeof path, "%s/abc", folder);
    int32_t n = 1;
    for (int32_t goes_on = 1; goes_on; n++) {
        file = open_file(path);
        fail_system_call(n, EIO);
        allow(EIO);
        goes_on = system_call_failed();
        close(file);
    }
    cr_assert_gt(n, 4);
}

/* ---- Threads ------------------------------------------------------------------------------------------- */

static void *plugin_handle;

static void look_at_threads(int error)
{
    tni_vector before = {0};
    int32_t thread = 0;
    (void)error;
    cr_assert_eq(tni_threads_read(ctx, &before), TN_OK);
    int32_t found = tni_threads_left(&before, plugin_handle, &thread);
    /* No thread of this program is in the library; when one cannot be looked at, that is not known. */
    cr_assert(found == TNI_THREADS_NONE || (system_call_failed() && found == TNI_THREADS_OTHERS), "%d",
              found);
    tni_vector_finish(ctx, &before, sizeof(int32_t));
}

Test(failing_calls, threads)
{
    ctx = plain_context();
    plugin_handle = dlopen(skewed("sound"), RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(plugin_handle, "%s", dlerror());
    cr_assert_gt(fail_each_call(EACCES, look_at_threads), 2);
    dlclose(plugin_handle);
    tn_context_destroy(ctx);
}
