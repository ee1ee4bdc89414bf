/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenon new-plugin: writes a plugin to begin with. Its two templates, examples/plugin and
 * examples/plugin-opaque, are plugins named "acme" that are built and tested with Tenon; the files are
 * written with the name of the new plugin instead.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/inspect.h>
#include <unistd.h>
#include "cmd.h"
#include "embedded.h"

/* What fits into the info block of a plugin, without the terminating zero. */
#define MAX_NAME   31
#define MAX_VENDOR 63
#define MAX_PATH   4096

static const char help[] =
    "usage: tenon new-plugin --name NAME [--memory KIND] [--dir DIR] [--vendor TEXT] [--license SPDX]\n\n"
    "Writes a device plugin to begin with, with kernels of all twelve families. It builds alone against the\n"
    "installed Tenon and passes the first two tiers of 'tenon check'.\n\n"
    "  --name NAME      of the plugin and its device: small letters, digits and '_', a letter first\n"
    "  --memory KIND    host: the host can read the device's memory, and work is done when a call returns\n"
    "                   (default); opaque: the host has handles only, and streams work later, as on a GPU\n"
    "  --dir DIR        an empty or a new folder (default: ./tenon-NAME)\n"
    "  --vendor TEXT    the maker (default: NAME with a capital letter)\n"
    "  --license SPDX   licence identifier for all files (default: Apache-2.0)\n";

/* A text of the template and its replacement. The first one that matches is used, so longer ones come first;
 * replacements are not searched again. */
typedef struct replacement {
    const char *from;
    char to[96];
} replacement;
enum { LICENSE, LICENSE_FIELD, VENDOR, CAPITAL, NAME, COUNT };

typedef struct request {
    const char *name;
    const char *memory;
    const embedded_file *files;
    const char *folder;
    const char *vendor;
    const char *license;
    char default_folder[64];
    char default_vendor[64];
    replacement replacements[COUNT];
} request;

static int wrong(const char *what, const char *text, const char *why)
{
    fprintf(stderr, "tenon new-plugin: %s '%s' %s\n", what, text, why);
    return CMD_USAGE;
}

static int failed(const char *what, const char *path)
{
    fprintf(stderr, "tenon new-plugin: cannot %s '%s': %s\n", what, path, strerror(errno));
    return CMD_FAILED;
}

/* ---- The request --------------------------------------------------------------------------------------- */

static int check_name(const char *name)
{
    const char *reserved = tn_inspect_reserved_name(name);
    char why[160];
    for (const char *c = name; *c; c++) {
        if (!islower((unsigned char)*c) && (c == name || (!isdigit((unsigned char)*c) && *c != '_')))
            return wrong("the name", name, "must be small letters, digits and '_', with a letter first");
    }
    if (!*name) return wrong("the name", name, "is empty");
    if (strlen(name) > MAX_NAME) return wrong("the name", name, "is longer than 31 characters");
    if (!reserved) return CMD_OK;
    snprintf(why, sizeof(why), "is reserved: %s; choose another", reserved);
    return wrong("the name", name, why);
}

/* Vendor and licence are written into string literals, comments and a manifest. */
static int check_text(const char *what, const char *text, const char *allowed)
{
    if (!*text) return wrong(what, text, "is empty");
    if (strlen(text) > MAX_VENDOR) return wrong(what, text, "is longer than 63 bytes");
    for (const char *c = text; *c; c++) {
        int plain = isalnum((unsigned char)*c) || strchr(allowed, *c) || (unsigned char)*c >= 0x80;
        if (!plain)
            return wrong(what, text, "may contain letters, digits, blanks and simple punctuation only");
    }
    return CMD_OK;
}

static int read_arguments(request *r, int argc, char **argv)
{
    const struct {
        const char *flag;
        const char **to;
    } known[] = {
        {"--name", &r->name},     {"--memory", &r->memory},   {"--dir", &r->folder},
        {"--vendor", &r->vendor}, {"--license", &r->license},
    };
    for (int i = 1; i < argc; i++) {
        size_t k = 0, count = sizeof(known) / sizeof(known[0]);
        while (k < count && strcmp(known[k].flag, argv[i]) != 0) k++;
        if (k == count) {
            fprintf(stderr, "tenon new-plugin: unexpected argument '%s'\n%s", argv[i], help);
            return CMD_USAGE;
        }
        if (i + 1 == argc) {
            fprintf(stderr, "tenon new-plugin: %s needs a value\n", argv[i]);
            return CMD_USAGE;
        }
        *known[k].to = argv[++i];
    }
    if (r->name) return CMD_OK;
    fprintf(stderr, "tenon new-plugin: --name is missing\n%s", help);
    return CMD_USAGE;
}

static void set(request *r, int i, const char *from, const char *before, const char *to)
{
    r->replacements[i].from = from;
    snprintf(r->replacements[i].to, sizeof(r->replacements[i].to), "%s%s", before, to);
}

static int complete(request *r)
{
    int status = check_name(r->name);
    if (status) return status;
    snprintf(r->default_folder, sizeof(r->default_folder), "tenon-%s", r->name);
    snprintf(r->default_vendor, sizeof(r->default_vendor), "%s", r->name);
    r->default_vendor[0] = (char)toupper((unsigned char)r->default_vendor[0]);
    if (!r->folder) r->folder = r->default_folder;
    if (!r->vendor) r->vendor = r->default_vendor;
    if (!r->license) r->license = "Apache-2.0";
    int is_opaque = r->memory && strcmp(r->memory, "opaque") == 0;
    if (r->memory && !is_opaque && strcmp(r->memory, "host") != 0)
        return wrong("the memory", r->memory, "is neither 'host' nor 'opaque'");
    r->files = is_opaque ? new_plugin_opaque_files : new_plugin_files;
    status = check_text("the vendor", r->vendor, " .,-+&()_'");
    if (!status) status = check_text("the licence", r->license, " .-+()");
    set(r, LICENSE, "SPDX-License-Identifier: Apache-2.0", "SPDX-License-Identifier: ", r->license);
    set(r, LICENSE_FIELD, "license: 'Apache-2.0", "license: '", r->license);
    set(r, VENDOR, "Acme Inc.", "", r->vendor);
    set(r, CAPITAL, "Acme", "", r->default_vendor);
    set(r, NAME, "acme", "", r->name);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------------------ */

/* Makes the folder if it does not exist; an existing one must be empty. */
static int make_folder(const char *path)
{
    DIR *folder;
    const struct dirent *entry;
    int empty = 1;
    if (mkdir(path, 0755) == 0) return CMD_OK;
    if (errno != EEXIST) return failed("make the folder", path);
    folder = opendir(path);
    if (!folder) return failed("use", path);
    while (empty && (entry = readdir(folder)))
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(folder);
    return empty ? CMD_OK : wrong("the folder", path, "is not empty; nothing was written");
}

static const replacement *find(const request *r, const char *text, size_t left)
{
    for (int i = 0; i < COUNT; i++) {
        size_t length = strlen(r->replacements[i].from);
        if (length <= left && memcmp(text, r->replacements[i].from, length) == 0) return &r->replacements[i];
    }
    return NULL;
}

static void write_replaced(const request *r, const char *text, size_t bytes, FILE *out)
{
    for (size_t i = 0; i < bytes;) {
        const replacement *found = find(r, text + i, bytes - i);
        if (found)
            fputs(found->to, out);
        else
            putc(text[i], out);
        i += found ? strlen(found->from) : 1;
    }
}

/* Makes the parent folders of a path below r->folder. */
static int make_parents(char *path, size_t from)
{
    for (char *slash = strchr(path + from, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0755) != 0 && errno != EEXIST) return failed("make the folder", path);
        *slash = '/';
    }
    return CMD_OK;
}

/* Readable by all, writable by the owner only, whatever the umask: Tenon loads nothing that others may
 * write. */
static int write_file(const request *r, const embedded_file *file)
{
    char path[MAX_PATH], name[128] = "";
    size_t length = strlen(file->path);
    int is_script = length > 3 && strcmp(file->path + length - 3, ".sh") == 0;
    FILE *memory = fmemopen(name, sizeof(name), "w");
    if (!memory) return failed("write", file->path);
    write_replaced(r, file->path, length, memory);
    fclose(memory);
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", r->folder, name) >= sizeof(path))
        return wrong("the path", r->folder, "is too long");
    int status = make_parents(path, strlen(r->folder) + 1);
    if (status) return status;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_script ? 0755 : 0644);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) return failed("write", path);
    write_replaced(r, file->data, file->bytes, out);
    if (fclose(out) != 0) return failed("write", path);
    return chmod(path, is_script ? 0755 : 0644) == 0 ? CMD_OK : failed("write", path);
}

static void print_next(const request *r)
{
    printf("%s: the plugin '%s' of %s; next:\n\n"
           "  cd %s\n"
           "  sh check.sh    builds it, shows whether Tenon loads it, and checks it\n\n"
           "README.md says what to change first.\n",
           r->folder, r->name, r->vendor, r->folder);
}

int cmd_new_plugin(int argc, char **argv)
{
    request r = {0};
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(help, stdout);
        return CMD_OK;
    }
    int status = read_arguments(&r, argc, argv);
    if (!status) status = complete(&r);
    if (!status) status = make_folder(r.folder);
    for (const embedded_file *file = r.files; !status && file->path; file++) status = write_file(&r, file);
    if (!status) print_next(&r);
    return status;
}
