/* SPDX-License-Identifier: Apache-2.0 */
/* Files that replace others as a whole, by everything that saves: modes, links, names, what a killed program leaves. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tenon/checkpoint.h>
#include <tenon/data.h>
#include <tenon/files.h>
#include <tenon/nn.h>
#include <tenon/program.h>
#include <tenon/progress.h>
#include <tenon/tenon.h>
#include <unistd.h>

/* ---- A file system that cannot do everything ----------------------------------------------------------- */

static int refuses_links, refuses_nameless;

/* Before the C library's, for libtenon, too. */
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    static int (*next)(int, const char *, int, const char *, int);
    void *address = dlsym(RTLD_NEXT, "linkat");
    memcpy(&next, &address, sizeof next);
    if (refuses_links) errno = EPERM;
    return refuses_links ? -1 : next(from_folder, from, to_folder, to, flags);
}

int openat(int folder, const char *path, int flags, ...)
{
    static int (*next)(int, const char *, int, ...);
    void *address = dlsym(RTLD_NEXT, "openat");
    memcpy(&next, &address, sizeof next);
    va_list args;
    va_start(args, flags);
    const int is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
    const mode_t mode = flags & O_CREAT || is_nameless ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (is_nameless && refuses_nameless) errno = EOPNOTSUPP;
    return is_nameless && refuses_nameless ? -1 : next(folder, path, flags, mode);
}

/* ---- Savers -------------------------------------------------------------------------------------------- */

static tn_context *ctx;
static tn_scope *s;
static tn_module *net;
static char folder[64], path[PATH_MAX];

static int32_t by_safetensors(const char *to)
{
    return tn_safetensors_save(s, to, (tn_named_tensor[]){{"x", tn_ones(s, TN_INTS(4))}}, 1, NULL, 0);
}

static int32_t by_pt(const char *to)
{
    return tn_pt_save(s, to, (tn_named_tensors){(tn_named_tensor[]){{"x", tn_ones(s, TN_INTS(4))}}, 1});
}

static int32_t by_npy(const char *to)
{
    return tn_npy_save(s, to, tn_ones(s, TN_INTS(4)));
}

static int32_t by_module(const char *to)
{
    return tn_module_save(net, to);
}

static int32_t by_checkpoint(const char *to)
{
    return tn_checkpoint_save(to, .module = net);
}

static int32_t by_plot(const char *to)
{
    return tn_plot_svg(to, TN_SERIES({.y = (double[]){1, 2}, .count = 2}));
}

static int32_t by_program(const char *to)
{
    tn_replacement r;
    const int32_t why = tn_replace_begin(&r, to);
    if (why) return why;
    fputs("bytes", r.to);
    return tn_replace_end(&r, 1);
}

typedef struct saver {
    char name[16];
    int32_t (*save)(const char *to);
} saver;

static saver savers[] = {{"safetensors", by_safetensors}, {"pt", by_pt},     {"npy", by_npy},
                         {"module", by_module},           {"plot", by_plot}, {"checkpoint", by_checkpoint},
                         {"program", by_program}};

static void set_up(void)
{
    strcpy(folder, "/tmp/tenon_replaced_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    s = tn_scope_open(ctx);
    net = tn_module_create(ctx, "net", NULL);
    tn_linear_create(net, "fc", 2, 1);
    umask(022);
}

static void clear_folder(void)
{
    DIR *list = opendir(folder);
    for (const struct dirent *entry; (entry = readdir(list));) unlinkat(dirfd(list), entry->d_name, 0);
    closedir(list);
}

static void tear_down(void)
{
    clear_folder();
    rmdir(folder);
    tn_module_destroy(net);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

TestSuite(replaced, .init = set_up, .fini = tear_down);

static const char *path_of(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Of the folder's entries. */
static int count(void)
{
    int n = 0;
    DIR *list = opendir(folder);
    for (const struct dirent *entry; (entry = readdir(list));)
        n += entry->d_name[0] != '.' || entry->d_name[1] == 't';
    closedir(list);
    return n;
}

static void put_old(const char *file, mode_t mode)
{
    FILE *old = fopen(file, "w");
    cr_assert_not_null(old);
    fputs("old", old);
    fclose(old);
    cr_assert_eq(chmod(file, mode), 0);
}

static void save(const saver *by, const char *to)
{
    const int32_t status = by->save(to);
    cr_expect_eq(status, 0, "%s: %s", by->name,
                 tn_scope_failed(s) ? tn_scope_error(s)->message
                 : tn_last_error()  ? tn_last_error()->message
                                    : strerror(status));
    tn_scope_clear(s);
}

/* The mode of a file that is no longer the old one. */
static int mode_of(const saver *by, const char *file)
{
    struct stat now;
    char start[4] = "";
    FILE *in = fopen(file, "r");
    cr_assert_not_null(in, "%s", by->name);
    cr_expect(fread(start, 1, 3, in) == 3 && strcmp(start, "old") != 0, "%s", by->name);
    fclose(in);
    cr_assert_eq(lstat(file, &now), 0);
    cr_expect(S_ISREG(now.st_mode));
    return now.st_mode & 07777;
}

#define EACH_SAVER(by) \
    for (const saver *by = savers; by < savers + sizeof savers / sizeof *savers; by++, clear_folder())

/* ---- Tests --------------------------------------------------------------------------------------------- */

static void check_modes(void)
{
    static const int modes[] = {0600, 0640, 0444, 0777};
    EACH_SAVER(by)
    {
        save(by, path_of("new"));
        cr_expect_eq(mode_of(by, path), 0644, "%s: a new file has mode %o", by->name, mode_of(by, path));
        for (int i = 0; i < 4; i++) {
            put_old(path_of("file"), (mode_t)modes[i]);
            save(by, path);
            cr_expect_eq(mode_of(by, path), modes[i], "%s: %o became %o", by->name, modes[i],
                         mode_of(by, path));
            unlink(path);
        }
        cr_expect_eq(count(), 1, "%s: something is left", by->name);
    }
}

Test(replaced, modes_are_kept)
{
    check_modes();
}

Test(replaced, modes_are_kept_where_files_need_names)
{
    refuses_nameless = 1;
    check_modes();
}

Test(replaced, files_that_cannot_be_linked_are_copied)
{
    refuses_links = 1;
    check_modes();
}

Test(replaced, the_owner_is_kept)
{
    struct stat now;
    if (geteuid() != 0) return; /* who alone may set owners */
    EACH_SAVER(by)
    {
        put_old(path_of("file"), 0640);
        cr_assert_eq(chown(path, 1234, 2345), 0);
        save(by, path);
        cr_assert_eq(stat(path, &now), 0);
        cr_expect(now.st_uid == 1234 && now.st_gid == 2345, "%s: owner %u, group %u", by->name, now.st_uid,
                  now.st_gid);
        cr_expect_eq(mode_of(by, path), 0640);
    }
}

/* Whose group is not one of the user's: its rights are those of others. */
Test(replaced, a_group_that_cannot_be_kept)
{
    struct stat now;
    if (geteuid() != 0) return;
    put_old(path_of("file"), 0664);
    cr_assert(chown(path, 1234, 2345) == 0 && chmod(folder, 0777) == 0 && setegid(3456) == 0 &&
              seteuid(3456) == 0);
    tn_replacement r;
    cr_assert_eq(tn_replace_begin(&r, path), 0);
    fputs("bytes", r.to);
    cr_assert_eq(tn_replace_end(&r, 1), 0);
    cr_assert_eq(stat(path, &now), 0);
    cr_expect_eq(now.st_uid, 3456);
    cr_expect_eq(now.st_mode & 07777, 0644, "%o", now.st_mode);
    cr_assert(seteuid(0) == 0 && setegid(0) == 0);
}

Test(replaced, links_stay)
{
    char link[PATH_MAX], second[PATH_MAX], target[64];
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    EACH_SAVER(by)
    {
        for (int is_there = 0; is_there < 2; is_there++) {
            if (is_there) put_old(path_of("target"), 0600);
            cr_assert(symlink("target", second) == 0 && symlink(second, link) == 0);
            save(by, link);
            cr_expect_gt(readlink(link, target, sizeof target), 0, "%s: the link became a file", by->name);
            cr_expect_gt(readlink(second, target, sizeof target), 0, "%s: the link became a file", by->name);
            cr_expect_eq(mode_of(by, path_of("target")), is_there ? 0600 : 0644, "%s", by->name);
            clear_folder();
        }
    }
    cr_assert_eq(symlink("loop", path_of("loop")), 0);
    cr_expect_eq(by_program(path), ELOOP);
    cr_expect_eq(by_safetensors(path), TN_E_IO);
    tn_scope_clear(s);
}

Test(replaced, the_longest_names)
{
    char name[NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    EACH_SAVER(by)
    {
        for (int length = NAME_MAX - 6; length <= NAME_MAX; length++) {
            name[length] = 0;
            save(by, path_of(name));
            cr_expect_eq(mode_of(by, path), 0644);
            name[length] = 'n';
        }
        name[NAME_MAX + 1] = 0;
        cr_expect_neq(by->save(path_of(name)), 0, "%s", by->name);
        tn_scope_clear(s);
    }
}

Test(replaced, an_empty_path)
{
    EACH_SAVER(by)
    {
        const int32_t status = by->save("");
        if (by->save == by_program) {
            cr_expect_eq(status, ENOENT);
            continue;
        }
        cr_expect_eq(status, TN_E_ARGUMENT, "%s: status %d", by->name, status);
        const char *text = tn_scope_failed(s) ? tn_scope_error(s)->message : tn_last_error()->message;
        cr_expect(strstr(text, "empty"), "%s: %s", by->name, text);
        tn_scope_clear(s);
    }
    tn_safetensors *st = NULL;
    tn_file *file = NULL;
    tn_pt *pt = NULL;
    cr_expect_eq(tn_safetensors_open(ctx, "", &st), TN_E_ARGUMENT);
    cr_expect_eq(tn_file_open(ctx, "", &file), TN_E_ARGUMENT);
    cr_expect_eq(tn_pt_open(ctx, "", &pt), TN_E_ARGUMENT);
    cr_expect_eq(tn_checkpoint_load("", .module = net), TN_E_ARGUMENT);
    cr_expect_eq(tn_shards_save(s, "", (tn_named_tensors){NULL, 0}, 1), TN_E_ARGUMENT);
    tn_scope_clear(s);
}

/* The process may change its folder meanwhile. */
Test(replaced, a_relative_path)
{
    tn_replacement r;
    cr_assert_eq(chdir(folder), 0);
    cr_assert_eq(tn_replace_begin(&r, "file"), 0);
    cr_assert_eq(chdir("/"), 0);
    fputs("bytes", r.to);
    cr_assert_eq(tn_replace_end(&r, 1), 0);
    cr_expect_eq(access(path_of("file"), R_OK), 0);
}

static void write_and_die(void)
{
    tn_replacement r;
    const pid_t child = fork();
    if (child == 0) {
        if (tn_replace_begin(&r, path_of("file"))) _exit(1);
        fputs("bytes", r.to);
        fflush(r.to);
        raise(SIGKILL);
    }
    int how = 0;
    cr_assert_eq(waitpid(child, &how, 0), child);
    cr_assert(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

Test(replaced, a_killed_program_leaves_nothing)
{
    const int nameless = open(folder, O_TMPFILE | O_WRONLY, 0600);
    write_and_die();
    if (nameless >= 0) cr_expect_eq(count(), 0, "a file without a name goes with its process");
    refuses_nameless = 1;
    write_and_die();
    write_and_die();
    cr_expect_eq(count(), nameless >= 0 ? 2 : 3);
    put_old(path_of("file"), 0600);
    cr_expect_eq(by_program(path), 0, "what was left does not stop a save");
}

/* As on a full disk. */
Test(replaced, what_cannot_be_written_leaves_the_old_file)
{
    struct rlimit before;
    char start[8] = "";
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    EACH_SAVER(by)
    {
        put_old(path_of("file"), 0600);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){2, before.rlim_max}), 0);
        const int32_t status = by->save(path);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
        cr_expect_eq(status, by->save == by_program ? EFBIG : TN_E_IO, "%s: status %d", by->name, status);
        const char *text = tn_scope_failed(s) ? tn_scope_error(s)->message : tn_last_error()->message;
        cr_expect(by->save == by_program || strstr(text, "File too large"), "%s: %s", by->name, text);
        tn_scope_clear(s);
        FILE *in = fopen(path, "r");
        cr_expect(fread(start, 1, 4, in) == 3 && strcmp(start, "old") == 0, "%s", by->name);
        fclose(in);
        cr_expect_eq(count(), 1, "%s: something is left", by->name);
    }
}

Test(replaced, shards)
{
    struct stat now;
    tn_named_tensor list[] = {{"x", tn_ones(s, TN_INTS(4))}, {"y", tn_ones(s, TN_INTS(4))}};
    char target[64];
    static const char *const names[] = {"model-00001-of-00002.safetensors",
                                        "model-00002-of-00002.safetensors", "model.safetensors.index.json"};
    put_old(path_of(names[0]), 0600);
    put_old(path_of(names[2]), 0640);
    cr_assert_eq(symlink("elsewhere", path_of(names[1])), 0);
    for (int again = 0; again < 2; again++)
        cr_assert_eq(tn_shards_save(s, folder, (tn_named_tensors){list, 2}, 16), TN_OK, "%s",
                     tn_scope_error(s)->message);
    cr_assert_eq(stat(path_of(names[0]), &now), 0);
    cr_expect_eq(now.st_mode & 07777, 0600);
    cr_assert_eq(stat(path_of(names[2]), &now), 0);
    cr_expect_eq(now.st_mode & 07777, 0640);
    cr_expect_gt(readlink(path_of(names[1]), target, sizeof target), 0);
    cr_expect_eq(count(), 4);
    cr_expect_not_null(tn_file_load(s, folder).data);
}
