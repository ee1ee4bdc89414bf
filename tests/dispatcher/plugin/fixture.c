/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

const char *skewed(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/libskewed_%s.so", getenv("TENON_TEST_PLUGINS"), name);
    return path;
}

int32_t examine(const char *path, tni_elf_info *out, tni_reason *reason)
{
    const tni_elf_host host = tni_elf_host_here();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(fd >= 0, "%s is not there", path);
    int32_t status = tni_elf_info_read(fd, out, reason);
    close(fd);
    return status == TN_OK ? tni_elf_info_check(out, &host, reason) : status;
}

tn_context *plain_context(void)
{
    tn_context *ctx = NULL;
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    return ctx;
}

const char *make_folder(void)
{
    static char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s/tenon-test-XXXXXX", getenv("TENON_TEST_PLUGINS"));
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chmod(folder, 0755), 0);
    return folder;
}

static int remove_entry(const char *path, const struct stat *file, int kind, struct FTW *place)
{
    (void)file, (void)kind, (void)place;
    return remove(path);
}

void remove_folder(const char *folder)
{
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

uint32_t count_entries(const char *folder)
{
    uint32_t count = 0;
    const struct dirent *entry;
    DIR *files = opendir(folder);
    cr_assert_not_null(files, "%s", folder);
    while ((entry = readdir(files))) count += entry->d_name[0] != '.';
    closedir(files);
    return count;
}

void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fwrite(bytes, 1, count, file), count);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(chmod(path, 0644), 0);
}

void write_text(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    write_file(path, text, strlen(text));
}

unsigned char *read_file(const char *path, size_t *out_bytes)
{
    struct stat file;
    FILE *stream = fopen(path, "rb");
    cr_assert_not_null(stream, "%s", path);
    cr_assert_eq(fstat(fileno(stream), &file), 0);
    *out_bytes = (size_t)file.st_size;
    unsigned char *bytes = malloc(*out_bytes + 1);
    cr_assert_eq(fread(bytes, 1, *out_bytes, stream), *out_bytes);
    fclose(stream);
    return bytes;
}
