/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds `tenon_plugin` the way the dynamic loader does: program headers, dynamic section, hash table, symbol,
 * segment. Section headers are ignored, since the loader ignores them and `strip` may remove them. Reading
 * goes through pread, never through a mapping, so that a file cut short meanwhile cannot raise a signal.
 *
 * The layout of ELF is that of the System V gABI, chapters 4 and 5, and of the GNU hash section.
 */
#include "dispatcher/plugin/elf_info.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* No real library has more. They bound the work on a hostile file. */
#define MAX_SEGMENTS  64u
#define MAX_HEADERS   512u
#define MAX_DYNAMIC   4096u
#define MAX_HASH_WALK (1u << 16)

typedef struct segment {
    uint64_t address;
    uint64_t offset;
    uint64_t file_bytes;
    uint64_t memory_bytes;
} segment;

typedef struct reader {
    int fd;
    uint64_t bytes; /* of the file */
    uint32_t wide;  /* 64-bit */
    uint32_t big;
    uint32_t machine;
    tni_reason *reason;
    segment segments[MAX_SEGMENTS];
    uint32_t n_segments;
    uint64_t dynamic_offset;
    uint64_t dynamic_bytes;
    uint64_t symbols; /* addresses from the dynamic section, 0: absent */
    uint64_t strings;
    uint64_t strings_bytes;
    uint64_t symbol_bytes;
    uint64_t hash;
    uint64_t gnu_hash;
} reader;

typedef struct symbol {
    uint64_t value;
    uint64_t bytes;
    uint32_t section;
    uint32_t type;
} symbol;

/* ---- Bytes ------------------------------------------------------------------------------------------- */

static uint64_t number(const reader *r, const unsigned char *bytes, uint32_t width)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < width; i++) value = value << 8 | bytes[r->big ? i : width - 1 - i];
    return value;
}

static uint32_t half(const reader *r, const unsigned char *bytes)
{
    return (uint32_t)number(r, bytes, 2);
}

static uint32_t word(const reader *r, const unsigned char *bytes)
{
    return (uint32_t)number(r, bytes, 4);
}

/* A field whose width and place depend on the class. */
static uint64_t native(const reader *r, const unsigned char *bytes, uint32_t offset_32, uint32_t offset_64)
{
    return number(r, bytes + (r->wide ? offset_64 : offset_32), r->wide ? 8 : 4);
}

static int32_t read_at(const reader *r, uint64_t offset, void *to, uint64_t bytes, const char *what)
{
    uint64_t done = 0;
    if (offset > r->bytes || bytes > r->bytes - offset)
        return tni_reason_set(r->reason, TN_E_CORRUPT,
                              "truncated ELF file: %s at offset %llu needs %llu bytes, the file has %llu",
                              what, (unsigned long long)offset, (unsigned long long)bytes,
                              (unsigned long long)r->bytes);
    while (done < bytes) {
        ssize_t n = pread(r->fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return tni_reason_set(r->reason, TN_E_IO, "cannot read %s: %s", what,
                                  n < 0 ? strerror(errno) : "the file became shorter");
        done += (uint64_t)n;
    }
    return TN_OK;
}

/*
 * Reads the bytes in the file for a range of addresses. An address past the part of its segment that is in the
 * file is in .bss, which has no bytes.
 */
static int32_t read_address(const reader *r, uint64_t address, void *to, uint64_t bytes, const char *what)
{
    for (uint32_t i = 0; i < r->n_segments; i++) {
        const segment *s = &r->segments[i];
        if (address < s->address || address - s->address >= s->memory_bytes) continue;
        uint64_t inside = address - s->address;
        if (inside >= s->file_bytes || bytes > s->file_bytes - inside)
            return tni_reason_set(r->reason, TN_E_NOT_FOUND,
                                  "%s lies in .bss, where the file has no bytes: it must be initialised data",
                                  what);
        return read_at(r, s->offset + inside, to, bytes, what);
    }
    return tni_reason_set(r->reason, TN_E_CORRUPT, "corrupt ELF file: %s at address 0x%llx is in no segment",
                          what, (unsigned long long)address);
}

/* ---- Headers ----------------------------------------------------------------------------------------- */

static int32_t read_identity(reader *r, unsigned char header[64])
{
    struct stat file;
    if (fstat(r->fd, &file) != 0)
        return tni_reason_set(r->reason, TN_E_IO, "cannot read the file: %s", strerror(errno));
    if (!S_ISREG(file.st_mode)) return tni_reason_set(r->reason, TN_E_CORRUPT, "not a regular file");
    r->bytes = (uint64_t)file.st_size;
    memset(header, 0, 64);
    int32_t status =
        r->bytes < EI_NIDENT ? TN_OK : read_at(r, 0, header, EI_NIDENT, "the ELF identification");
    if (status != TN_OK) return status;
    if (memcmp(header, ELFMAG, SELFMAG) != 0)
        return tni_reason_set(r->reason, TN_E_CORRUPT, "not an ELF file");
    if (header[EI_CLASS] != ELFCLASS32 && header[EI_CLASS] != ELFCLASS64)
        return tni_reason_set(r->reason, TN_E_CORRUPT, "corrupt ELF file: class %u", header[EI_CLASS]);
    if (header[EI_DATA] != ELFDATA2LSB && header[EI_DATA] != ELFDATA2MSB)
        return tni_reason_set(r->reason, TN_E_CORRUPT, "corrupt ELF file: byte order %u", header[EI_DATA]);
    r->wide = header[EI_CLASS] == ELFCLASS64;
    r->big = header[EI_DATA] == ELFDATA2MSB;
    return read_at(r, 0, header, r->wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr), "the ELF header");
}

/* Takes one program header: a segment that is loaded, or the place of the dynamic section. */
static int32_t take_program_header(reader *r, const unsigned char *header)
{
    uint32_t type = word(r, header);
    uint64_t offset = native(r, header, 4, 8), address = native(r, header, 8, 16);
    uint64_t file_bytes = native(r, header, 16, 32), memory_bytes = native(r, header, 20, 40);
    if (type == PT_DYNAMIC) {
        r->dynamic_offset = offset;
        r->dynamic_bytes = file_bytes;
    }
    if (type != PT_LOAD) return TN_OK;
    if (r->n_segments == MAX_SEGMENTS)
        return tni_reason_set(r->reason, TN_E_CORRUPT, "corrupt ELF file: more than %u segments",
                              MAX_SEGMENTS);
    if (offset > r->bytes || file_bytes > r->bytes - offset)
        return tni_reason_set(
            r->reason, TN_E_CORRUPT,
            "truncated ELF file: a segment needs %llu bytes at offset %llu, the file has %llu",
            (unsigned long long)file_bytes, (unsigned long long)offset, (unsigned long long)r->bytes);
    r->segments[r->n_segments++] = (segment){address, offset, file_bytes, memory_bytes};
    return TN_OK;
}

static int32_t read_program_headers(reader *r, const unsigned char *header)
{
    unsigned char entry[sizeof(Elf64_Phdr)];
    uint64_t table = native(r, header, 28, 32);
    uint32_t entry_bytes = half(r, header + (r->wide ? 54 : 42)),
             count = half(r, header + (r->wide ? 56 : 44));
    uint32_t expected = r->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    if (entry_bytes != expected || count == 0 || count > MAX_HEADERS)
        return tni_reason_set(r->reason, TN_E_CORRUPT, "corrupt ELF file: %u program headers of %u bytes",
                              count, entry_bytes);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = table + (uint64_t)i * entry_bytes; /* no overflow: the header before lies in the file */
        int32_t status = read_at(r, at, entry, entry_bytes, "a program header");
        if (status == TN_OK) status = take_program_header(r, entry);
        if (status != TN_OK) return status;
    }
    return TN_OK;
}

static void take_dynamic(reader *r, uint64_t tag, uint64_t value)
{
    const struct {
        uint64_t tag, *to;
    } entries[] = {{DT_SYMTAB, &r->symbols},      {DT_STRTAB, &r->strings}, {DT_STRSZ, &r->strings_bytes},
                   {DT_SYMENT, &r->symbol_bytes}, {DT_HASH, &r->hash},      {DT_GNU_HASH, &r->gnu_hash}};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (entries[i].tag == tag) *entries[i].to = value;
}

static int32_t read_dynamic(reader *r)
{
    uint32_t width = r->wide ? 8 : 4;
    unsigned char pair[16];
    uint64_t count = r->dynamic_bytes / (2 * width);
    if (count > MAX_DYNAMIC) count = MAX_DYNAMIC;
    for (uint64_t i = 0; i < count; i++) {
        int32_t status =
            read_at(r, r->dynamic_offset + i * 2 * width, pair, 2 * width, "the dynamic section");
        if (status != TN_OK) return status;
        uint64_t tag = number(r, pair, width);
        if (tag == DT_NULL) break;
        take_dynamic(r, tag, number(r, pair + width, width));
    }
    if (!r->symbols || !r->strings || (!r->hash && !r->gnu_hash))
        return tni_reason_set(r->reason, TN_E_NOT_FOUND, "no dynamic symbols: '%s' is not exported",
                              TN_PLUGIN_SYMBOL);
    if (r->symbol_bytes != (r->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym)))
        return tni_reason_set(r->reason, TN_E_CORRUPT, "corrupt ELF file: symbols of %llu bytes",
                              (unsigned long long)r->symbol_bytes);
    return TN_OK;
}

/* ---- The symbol -------------------------------------------------------------------------------------- */

/* Reads symbol `index`; *out_match: whether it is TN_PLUGIN_SYMBOL. */
static int32_t read_symbol(const reader *r, uint32_t index, symbol *out, int32_t *out_match)
{
    unsigned char entry[sizeof(Elf64_Sym)];
    char name[sizeof(TN_PLUGIN_SYMBOL)];
    int32_t status = read_address(r, r->symbols + (uint64_t)index * r->symbol_bytes, entry, r->symbol_bytes,
                                  "the symbol table");
    if (status != TN_OK) return status;
    uint64_t at = word(r, entry);
    *out_match = 0;
    if (at >= r->strings_bytes || r->strings_bytes - at < sizeof(name)) return TN_OK;
    status = read_address(r, r->strings + at, name, sizeof(name), "the string table");
    if (status != TN_OK) return status;
    *out_match = memcmp(name, TN_PLUGIN_SYMBOL, sizeof(name)) == 0;
    out->value = native(r, entry, 4, 8);
    out->bytes = native(r, entry, 8, 16);
    out->type = (r->wide ? entry[4] : entry[12]) & 0xfu;
    out->section = half(r, entry + (r->wide ? 6 : 14));
    return TN_OK;
}

static int32_t read_word(const reader *r, uint64_t address, uint32_t *out)
{
    unsigned char bytes[4];
    int32_t status = read_address(r, address, bytes, 4, "the symbol hash table");
    if (status == TN_OK) *out = word(r, bytes);
    return status;
}

static int32_t not_exported(const reader *r)
{
    return tni_reason_set(r->reason, TN_E_NOT_FOUND, "the file exports no symbol '%s': not a plugin",
                          TN_PLUGIN_SYMBOL);
}

static int32_t hash_too_long(const reader *r)
{
    return tni_reason_set(r->reason, TN_E_CORRUPT, "corrupt ELF file: the symbol hash table does not end");
}

/* GNU hash: {buckets, first symbol, bloom words, shift}, bloom filter, buckets, chains; bit 0 ends a chain. */
static int32_t find_by_gnu_hash(const reader *r, symbol *out)
{
    uint32_t buckets = 0, first = 0, bloom = 0, index = 0, value = 0, hash = 5381;
    int32_t status, match = 0;
    for (const char *c = TN_PLUGIN_SYMBOL; *c; c++) hash = hash * 33 + (unsigned char)*c;
    if ((status = read_word(r, r->gnu_hash, &buckets)) || (status = read_word(r, r->gnu_hash + 4, &first)) ||
        (status = read_word(r, r->gnu_hash + 8, &bloom)))
        return status;
    if (buckets == 0) return not_exported(r);
    uint64_t table = r->gnu_hash + 16 + (uint64_t)bloom * (r->wide ? 8 : 4);
    uint64_t chains = table + (uint64_t)buckets * 4;
    if ((status = read_word(r, table + (uint64_t)(hash % buckets) * 4, &index))) return status;
    if (index < first) return not_exported(r);
    for (uint32_t walked = 0; walked < MAX_HASH_WALK; walked++, index++) {
        if ((status = read_word(r, chains + (uint64_t)(index - first) * 4, &value))) return status;
        if ((value | 1u) == (hash | 1u)) {
            if ((status = read_symbol(r, index, out, &match))) return status;
            if (match) return TN_OK;
        }
        if (value & 1u) return not_exported(r);
    }
    return hash_too_long(r);
}

/* System V hash: {buckets, chains}, buckets, chains; 0 ends. */
static int32_t find_by_hash(const reader *r, symbol *out)
{
    uint32_t buckets = 0, index = 0, hash = 0;
    int32_t status, match = 0;
    for (const char *c = TN_PLUGIN_SYMBOL; *c; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash = (hash ^ (hash & 0xf0000000u) >> 24) & 0x0fffffffu;
    }
    if ((status = read_word(r, r->hash, &buckets))) return status;
    if (buckets == 0) return not_exported(r);
    if ((status = read_word(r, r->hash + 8 + (uint64_t)(hash % buckets) * 4, &index))) return status;
    for (uint32_t walked = 0; walked < MAX_HASH_WALK; walked++) {
        if (index == 0) return not_exported(r);
        if ((status = read_symbol(r, index, out, &match))) return status;
        if (match) return TN_OK;
        if ((status = read_word(r, r->hash + 8 + ((uint64_t)buckets + index) * 4, &index))) return status;
    }
    return hash_too_long(r);
}

/* ---- The block --------------------------------------------------------------------------------------- */

/* Bytes of the block on a machine of the file's class: the entry is its last member. */
static uint32_t block_bytes(const reader *r)
{
    return (uint32_t)offsetof(tn_plugin_info, entry) + (r->wide ? 8 : 4);
}

/* The members up to the entry have the same place in every data model. */
static void decode(const reader *r, const unsigned char *block, tn_plugin_info *out)
{
    memset(out, 0, sizeof(*out));
    memcpy(out, block, offsetof(tn_plugin_info, entry));
    uint32_t *const words[] = {&out->size,         &out->stamp,        &out->abi_min,      &out->abi_max,
                               &out->header_minor, &out->architecture, &out->pointer_bits, &out->sanitizer,
                               &out->flags,        &out->reserved};
    for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        *words[i] = word(r, block + offsetof(tn_plugin_info, size) + 4 * i);
}

static int32_t read_block(const reader *r, const symbol *s, tn_plugin_info *out)
{
    unsigned char block[sizeof(tn_plugin_info) + 8] = {0};
    if (s->section == SHN_UNDEF)
        return tni_reason_set(r->reason, TN_E_NOT_FOUND, "'%s' is imported, not exported", TN_PLUGIN_SYMBOL);
    if (s->type != STT_OBJECT)
        return tni_reason_set(r->reason, TN_E_NOT_FOUND, "'%s' is not a data object", TN_PLUGIN_SYMBOL);
    if (s->bytes < block_bytes(r))
        return tni_reason_set(r->reason, TN_E_NOT_FOUND, "'%s' is too small: expected %u bytes, found %llu",
                              TN_PLUGIN_SYMBOL, block_bytes(r), (unsigned long long)s->bytes);
    int32_t status = read_address(r, s->value, block, block_bytes(r), "'" TN_PLUGIN_SYMBOL "'");
    if (status == TN_OK) decode(r, block, out);
    return status;
}

int32_t tni_elf_info_read(int fd, tni_elf_info *out, tni_reason *reason)
{
    reader r = {.fd = fd, .reason = reason};
    unsigned char header[64];
    symbol found = {0};
    tni_elf_info info = {0};
    int32_t status = read_identity(&r, header);
    if (status != TN_OK) return status;
    if (half(&r, header + 16) != ET_DYN)
        return tni_reason_set(reason, TN_E_CORRUPT, "not a shared library: ELF type %u",
                              half(&r, header + 16));
    info.machine = half(&r, header + 18);
    info.pointer_bits = r.wide ? 64 : 32;
    info.big_endian = r.big;
    if ((status = read_program_headers(&r, header)) || (status = read_dynamic(&r))) return status;
    status = r.gnu_hash ? find_by_gnu_hash(&r, &found) : find_by_hash(&r, &found);
    if (status == TN_OK) status = read_block(&r, &found, &info.info);
    if (status == TN_OK) *out = info;
    return status;
}
