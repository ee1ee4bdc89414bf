/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenon new-plugin, new-operators, new-app: write a project to begin with. The templates are folders of examples/,
 * which are built and tested with Tenon; the files are written with the name of the new project instead.
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

/* A template: the value of the command's option that chooses it, and its files. */
typedef struct template
{
    const char *value;
    const embedded_file *files;
    const char *project; /* of an application: its name in meson.build */
    const char *program; /* and in the commands of README.md */
}
template;

/* A text of the template and its replacement. The first one that matches is used, so longer ones come first;
 * replacements are not searched again. */
typedef struct replacement {
    const char *from;
    char to[96];
} replacement;
#define MAX_REPLACEMENTS 12

typedef struct request {
    const struct kind *kind;
    const char *name;
    const char *choice; /* value of the option of the kind */
    const embedded_file *files;
    const char *folder;
    const char *vendor;
    const char *license;
    char default_folder[64];
    char default_vendor[64];
    replacement replacements[MAX_REPLACEMENTS];
    int n_replacements;
} request;

/* A command: what it writes and how the names of its templates become those of the new project. */
typedef struct kind {
    const char *command; /* "new-plugin" */
    const char *what;    /* "the plugin" */
    const char *help;
    const char *option; /* that chooses the template: "--memory", or NULL */
    const char *choices;
    const template *templates;                 /* the first is the default; a value of NULL ends the list */
    const char *prefix;                        /* of the default folder */
    const char *(*reserved)(const char *name); /* why a name may not be taken, or NULL; may itself be NULL */
    int has_vendor;
    void (*replace)(request *r, const template *from);
    const char *next; /* printed at the end: what to do in the folder */
} kind;

static void set(request *r, const char *before, const char *from, const char *after, const char *to)
{
    replacement *one = &r->replacements[r->n_replacements++];
    one->from = from;
    snprintf(one->to, sizeof(one->to), "%s%s%s", before, to, after);
}

/* ---- Plugins ------------------------------------------------------------------------------------------ */

static const char plugin_help[] =
    "usage: tenon new-plugin --name NAME [--memory KIND] [--dir DIR] [--vendor TEXT] [--license SPDX]\n\n"
    "Writes a device plugin to begin with, with kernels of all twelve families. It builds alone against the\n"
    "installed Tenon and passes the first two tiers of 'tenon check'.\n\n"
    "  --name NAME      of the plugin and its device: small letters, digits and '_', a letter first\n"
    "  --memory KIND    host: the host can read the device's memory, and work is done when a call returns\n"
    "                   (default); opaque: the host has handles only, and streams work later, as on a GPU\n"
    "  --dir DIR        an empty or a new folder (default: ./tenon-NAME)\n"
    "  --vendor TEXT    the maker (default: NAME with a capital letter)\n"
    "  --license SPDX   licence identifier for all files (default: Apache-2.0)\n";

static const template plugin_templates[] = {
    {"host", new_plugin_files, NULL, NULL}, {"opaque", new_plugin_opaque_files, NULL, NULL}, {0}};

static void replace_in_plugin(request *r, const template *from)
{
    (void)from;
    set(r, "", "Acme Inc.", "", r->vendor);
    set(r, "", "Acme", "", r->default_vendor);
    set(r, "", "acme", "", r->name);
}

static const kind plugin = {
    .command = "new-plugin",
    .what = "the plugin",
    .help = plugin_help,
    .option = "--memory",
    .choices = "is neither 'host' nor 'opaque'",
    .templates = plugin_templates,
    .prefix = "tenon-",
    .reserved = tn_inspect_reserved_name,
    .has_vendor = 1,
    .replace = replace_in_plugin,
    .next = "  sh check.sh    builds it, shows whether Tenon loads it, and checks it\n",
};

/* ---- Operator libraries ------------------------------------------------------------------------------- */

static const char operators_help[] =
    "usage: tenon new-operators --name NAME [--dir DIR] [--license SPDX]\n\n"
    "Writes an operator library to begin with: NAME::smooth_max with its schema, shape rule, kernel,\n"
    "composite and gradient, and a program that calls it and checks its gradient.\n\n"
    "  --name NAME      of the library and of its operators: small letters, digits and '_', a letter first\n"
    "  --dir DIR        an empty or a new folder (default: ./tenon-NAME)\n"
    "  --license SPDX   licence identifier for all files (default: Apache-2.0)\n";

static const template operators_templates[] = {{NULL, new_operators_files, NULL, NULL}};

static const char *reserved_namespace(const char *name)
{
    int own = strcmp(name, "aten") == 0 || strcmp(name, "prim") == 0;
    return own ? "it is a namespace of the built-in operators" : NULL;
}

static void replace_in_operators(request *r, const template *from)
{
    (void)from;
    set(r, "tenon-", "tenon-operators", "", r->name);
    set(r, "lib", "libsmooth", "", r->name);
    set(r, "", "smooth.c", ".c", r->name);
    set(r, "", "smooth.json", ".json", r->name);
    set(r, "\"", "\"smooth\"", "\"", r->name);
    set(r, "'", "'smooth'", "'", r->name);
    set(r, "", "mylib", "", r->name);
}

static const kind operators = {
    .command = "new-operators",
    .what = "the operator library",
    .help = operators_help,
    .templates = operators_templates,
    .prefix = "tenon-",
    .reserved = reserved_namespace,
    .replace = replace_in_operators,
    .next = "  sh check.sh    builds the library and the program, runs it, and checks the operator\n",
};

/* ---- Applications ------------------------------------------------------------------------------------- */

static const template app_templates[] = {
    {"classify", new_classify_files, "'classify'", "build/classify"},
    {"gpt2", new_gpt2_files, "'gpt2'", "build/gpt2"},
    {"char_lstm", new_char_lstm_files, "'char_lstm'", "build/char_lstm"},
    {"resnet", new_resnet_files, "'resnet'", "build/resnet"},
    {"decode", new_decode_files, "'decode'", "build/decode"},
    {"data_parallel", new_data_parallel_files, "'data_parallel'", "build/data_parallel"},
    {"gpt2_cpp", new_gpt2_cpp_files, "'gpt2_cpp'", "build/gpt2_cpp"},
    {0},
};
#define APP_CHOICES "classify, gpt2, decode, char_lstm, resnet, data_parallel, gpt2_cpp"

static const char app_help[] =
    "usage: tenon new-app --name NAME [--from EXAMPLE] [--dir DIR] [--license SPDX]\n\n"
    "Writes a program to begin with. It builds alone against the installed Tenon, with meson.\n\n"
    "  --name NAME      of the program: small letters, digits and '_', a letter first\n"
    "  --from EXAMPLE   " APP_CHOICES "\n"
    "                   (default: classify; each says in its README.md what it does)\n"
    "  --dir DIR        an empty or a new folder (default: ./NAME)\n"
    "  --license SPDX   licence identifier for all files (default: Apache-2.0)\n";

static void replace_in_app(request *r, const template *from)
{
    set(r, "'", from->project, "'", r->name);
    set(r, "build/", from->program, "", r->name);
}

static const kind app = {
    .command = "new-app",
    .what = "the program",
    .help = app_help,
    .option = "--from",
    .choices = "is not one of " APP_CHOICES,
    .templates = app_templates,
    .prefix = "",
    .replace = replace_in_app,
    .next = "  meson setup build && ninja -C build\n",
};

static int wrong(const request *r, const char *what, const char *text, const char *why)
{
    fprintf(stderr, "tenon %s: %s '%s' %s\n", r->kind->command, what, text, why);
    return CMD_USAGE;
}

static int failed(const request *r, const char *what, const char *path)
{
    fprintf(stderr, "tenon %s: cannot %s '%s': %s\n", r->kind->command, what, path, strerror(errno));
    return CMD_FAILED;
}

/* ---- The request --------------------------------------------------------------------------------------- */

static int check_name(const request *r)
{
    const char *name = r->name, *reserved = r->kind->reserved ? r->kind->reserved(name) : NULL;
    char why[160];
    for (const char *c = name; *c; c++) {
        if (!islower((unsigned char)*c) && (c == name || (!isdigit((unsigned char)*c) && *c != '_')))
            return wrong(r, "the name", name, "must be small letters, digits and '_', with a letter first");
    }
    if (!*name) return wrong(r, "the name", name, "is empty");
    if (strlen(name) > MAX_NAME) return wrong(r, "the name", name, "is longer than 31 characters");
    if (!reserved) return CMD_OK;
    snprintf(why, sizeof(why), "is reserved: %s; choose another", reserved);
    return wrong(r, "the name", name, why);
}

/* Vendor and licence are written into string literals, comments and a manifest. */
static int check_text(const request *r, const char *what, const char *text, const char *allowed)
{
    if (!*text) return wrong(r, what, text, "is empty");
    if (strlen(text) > MAX_VENDOR) return wrong(r, what, text, "is longer than 63 bytes");
    for (const char *c = text; *c; c++) {
        int plain = isalnum((unsigned char)*c) || strchr(allowed, *c) || (unsigned char)*c >= 0x80;
        if (!plain)
            return wrong(r, what, text, "may contain letters, digits, blanks and simple punctuation only");
    }
    return CMD_OK;
}

static int read_arguments(request *r, int argc, char **argv)
{
    const struct {
        const char *flag;
        const char **to;
    } known[] = {
        {"--name", &r->name},
        {"--dir", &r->folder},
        {"--license", &r->license},
        {r->kind->has_vendor ? "--vendor" : "", &r->vendor},
        {r->kind->option ? r->kind->option : "", &r->choice},
    };
    for (int i = 1; i < argc; i++) {
        size_t k = 0, count = sizeof(known) / sizeof(known[0]);
        while (k < count && (!*known[k].flag || strcmp(known[k].flag, argv[i]) != 0)) k++;
        if (k == count) {
            fprintf(stderr, "tenon %s: unexpected argument '%s'\n%s", r->kind->command, argv[i],
                    r->kind->help);
            return CMD_USAGE;
        }
        if (i + 1 == argc) {
            fprintf(stderr, "tenon %s: %s needs a value\n", r->kind->command, argv[i]);
            return CMD_USAGE;
        }
        *known[k].to = argv[++i];
    }
    if (r->name) return CMD_OK;
    fprintf(stderr, "tenon %s: --name is missing\n%s", r->kind->command, r->kind->help);
    return CMD_USAGE;
}

static int complete(request *r)
{
    const template *t = r->kind->templates;
    int status = check_name(r);
    if (status) return status;
    snprintf(r->default_folder, sizeof(r->default_folder), "%s%s", r->kind->prefix, r->name);
    snprintf(r->default_vendor, sizeof(r->default_vendor), "%s", r->name);
    r->default_vendor[0] = (char)toupper((unsigned char)r->default_vendor[0]);
    if (!r->folder) r->folder = r->default_folder;
    if (!r->vendor) r->vendor = r->default_vendor;
    if (!r->license) r->license = "Apache-2.0";
    while (r->choice && t->value && strcmp(t->value, r->choice) != 0) t++;
    if (r->choice && !t->value) return wrong(r, r->kind->option, r->choice, r->kind->choices);
    r->files = t->files;
    status = check_text(r, "the vendor", r->vendor, " .,-+&()_'");
    if (!status) status = check_text(r, "the licence", r->license, " .-+()");
    set(r, "SPDX-License-Identifier: ", "SPDX-License-Identifier: Apache-2.0", "", r->license);
    set(r, "license: '", "license: 'Apache-2.0", "", r->license);
    r->kind->replace(r, t);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------------------ */

/* Makes the folder if it does not exist; an existing one must be empty. */
static int make_folder(const request *r)
{
    const char *path = r->folder;
    DIR *folder;
    const struct dirent *entry;
    int empty = 1;
    if (mkdir(path, 0755) == 0) return CMD_OK;
    if (errno != EEXIST) return failed(r, "make the folder", path);
    folder = opendir(path);
    if (!folder) return failed(r, "use", path);
    while (empty && (entry = readdir(folder)))
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(folder);
    return empty ? CMD_OK : wrong(r, "the folder", path, "is not empty; nothing was written");
}

static const replacement *find(const request *r, const char *text, size_t left)
{
    for (int i = 0; i < r->n_replacements; i++) {
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
static int make_parents(const request *r, char *path, size_t from)
{
    for (char *slash = strchr(path + from, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0755) != 0 && errno != EEXIST) return failed(r, "make the folder", path);
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
    if (!memory) return failed(r, "write", file->path);
    write_replaced(r, file->path, length, memory);
    fclose(memory);
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", r->folder, name) >= sizeof(path))
        return wrong(r, "the path", r->folder, "is too long");
    int status = make_parents(r, path, strlen(r->folder) + 1);
    if (status) return status;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_script ? 0755 : 0644);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) return failed(r, "write", path);
    write_replaced(r, file->data, file->bytes, out);
    if (fclose(out) != 0) return failed(r, "write", path);
    return chmod(path, is_script ? 0755 : 0644) == 0 ? CMD_OK : failed(r, "write", path);
}

static int write_project(const kind *k, int argc, char **argv)
{
    request r = {.kind = k};
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(k->help, stdout);
        return CMD_OK;
    }
    int status = read_arguments(&r, argc, argv);
    if (!status) status = complete(&r);
    if (!status) status = make_folder(&r);
    for (const embedded_file *file = r.files; !status && file->path; file++) status = write_file(&r, file);
    if (!status)
        printf("%s: %s '%s'; next:\n\n  cd %s\n%s\nREADME.md says what to change first.\n", r.folder, k->what,
               r.name, r.folder, k->next);
    return status;
}

int cmd_new_plugin(int argc, char **argv)
{
    return write_project(&plugin, argc, argv);
}

int cmd_new_operators(int argc, char **argv)
{
    return write_project(&operators, argc, argv);
}

int cmd_new_app(int argc, char **argv)
{
    return write_project(&app, argc, argv);
}
