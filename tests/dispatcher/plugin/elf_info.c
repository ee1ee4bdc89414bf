/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block is read from files that compilers made and from files that are built here byte by byte, in every
 * word size and byte order; refusals are compared with their text.
 */
#include "fixture.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

Test(elf_info, a_sound_plugin_is_read)
{
    tni_elf_info found;
    tni_reason reason = {""};
    cr_assert_eq(examine(skewed("sound"), &found, &reason), TN_OK, "%s", reason.text);
    cr_assert_str_eq(found.info.name, "skewed");
    cr_assert_str_eq(found.info.version, "1.2");
    cr_assert_str_eq(found.info.vendor, "Tests");
    cr_assert_eq(found.info.abi_min, 2);
    cr_assert_eq(found.info.abi_max, 2);
    cr_assert_eq(found.pointer_bits, sizeof(void *) * 8);
    cr_assert_null(found.info.entry);
}

Test(elf_info, both_kinds_of_hash_tables)
{
    static const char *const names[] = {"gnu_hash", "sysv_hash"};
    for (int i = 0; i < 2; i++) {
        tni_elf_info found;
        tni_reason reason = {""};
        cr_assert_eq(examine(skewed(names[i]), &found, &reason), TN_OK, "%s: %s", names[i], reason.text);
        cr_assert_str_eq(found.info.name, "skewed");
    }
}

Test(elf_info, refusals_name_what_is_wrong)
{
    static const char *const cases[][2] = {
        {"no_symbol", "exports no symbol 'tenon_plugin'"},
        {"bss", "'tenon_plugin' lies in .bss"},
        {"function", "'tenon_plugin' is not a data object"},
        {"small", "'tenon_plugin' is too small: expected 248 bytes, found 16"},
        {"zero_stamp", "stamp: 0; the block must be written with TN_DEFINE_PLUGIN"},
        {"wrong_abi", "ABI generation: expected 2 to 2, found 7 to 7"},
        {"bad_magic", "magic:"},
        {"sanitizer", "sanitizer: the plugin was compiled with memory, this process has "},
        {"block_size", "size of the block: expected 248, found 240"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tni_elf_info found;
        tni_reason reason = {""};
        cr_assert_neq(examine(skewed(cases[i][0]), &found, &reason), TN_OK, "%s", cases[i][0]);
        assert_contains(reason.text, cases[i][1]);
    }
}

/* A file in memory, changed by the caller. */
static int32_t examine_bytes(const unsigned char *bytes, size_t count, tni_elf_info *out, tni_reason *reason)
{
    const tni_elf_host host = tni_elf_host_here();
    int fd = memfd_create("plugin", MFD_CLOEXEC);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, bytes, count), (ssize_t)count);
    int32_t status = tni_elf_info_read(fd, out, reason);
    close(fd);
    return status == TN_OK ? tni_elf_info_check(out, &host, reason) : status;
}

Test(elf_info, a_text_is_not_an_elf_file)
{
    static const char text[] = "#!/bin/sh\necho this is no library of any kind\n";
    tni_elf_info found;
    tni_reason reason = {""};
    cr_assert_eq(examine_bytes((const unsigned char *)text, sizeof(text), &found, &reason), TN_E_CORRUPT);
    cr_assert_str_eq(reason.text, "not an ELF file");
    cr_assert_eq(examine_bytes((const unsigned char *)"", 0, &found, &reason), TN_E_CORRUPT);
    cr_assert_str_eq(reason.text, "not an ELF file");
    cr_assert_eq(examine_bytes((const unsigned char *)"\177ELF", 4, &found, &reason), TN_E_CORRUPT);
}

Test(elf_info, another_machine)
{
    size_t count;
    tni_elf_info found;
    tni_reason reason = {""};
    unsigned char *bytes = read_file(skewed("sound"), &count);
    bytes[18] = 183 & 0xff; /* e_machine, little endian */
    bytes[19] = 0;
    cr_assert_eq(examine_bytes(bytes, count, &found, &reason), TN_E_VERSION);
    assert_contains(reason.text, "architecture: expected x86-64 (62), found AArch64 (183)");
    /* The block still says what it was compiled for: that differs, too. */
    assert_contains(reason.text, "architecture in the block: expected 183, found 62");
    free(bytes);
}

Test(elf_info, a_file_cut_short_is_refused_at_every_length)
{
    size_t count;
    unsigned char *bytes = read_file(skewed("sound"), &count);
    /* The loader needs everything up to the end of the last segment; section headers lie behind it. */
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)bytes;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(bytes + header->e_phoff);
    size_t needed = 0;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset + segments[i].p_filesz > needed)
            needed = segments[i].p_offset + segments[i].p_filesz;
    }
    for (size_t length = 0; length < needed; length += length < 1024 ? 1 : 61) {
        tni_elf_info found;
        tni_reason reason = {""};
        cr_assert_neq(examine_bytes(bytes, length, &found, &reason), TN_OK, "%zu bytes", length);
        cr_assert(reason.text[0]);
        if (length >= 64) assert_contains(reason.text, "truncated ELF file");
    }
    free(bytes);
}

Test(elf_info, any_damage_gives_an_answer)
{
    size_t count;
    uint64_t state = 88172645463325252ull;
    unsigned char *bytes = read_file(skewed("sound"), &count), *damaged = malloc(count);
    for (int round = 0; round < 4000; round++) {
        tni_elf_info found;
        tni_reason reason = {""};
        memcpy(damaged, bytes, count);
        for (int change = 0; change < 8; change++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            /* Headers and dynamic tables lie in the first part of the file. */
            damaged[state % (change < 4 ? 1024 : count)] = (unsigned char)(state >> 32);
        }
        int32_t status = examine_bytes(damaged, count, &found, &reason);
        cr_assert(status == TN_OK || reason.text[0]);
    }
    free(bytes);
    free(damaged);
}

/* ---- Files of all data models, built here ------------------------------------------------------------ */

typedef struct image {
    unsigned char bytes[4096];
    int wide, big;
} image;

static void put(image *f, size_t at, uint64_t value, int width)
{
    for (int i = 0; i < width; i++)
        f->bytes[at + (size_t)(f->big ? width - 1 - i : i)] = (unsigned char)(value >> 8 * i);
}

static void put_native(image *f, size_t at, uint64_t value)
{
    put(f, at, value, f->wide ? 8 : 4);
}

/* One segment that maps the file at address 0x1000 and its dynamic section at 0x200. */
static void put_headers(image *f, uint32_t machine)
{
    size_t word = f->wide ? 8 : 4, table = f->wide ? 64 : 52, entry = f->wide ? 56 : 32;
    memcpy(f->bytes, "\177ELF", 4);
    f->bytes[4] = f->wide ? 2 : 1;
    f->bytes[5] = f->big ? 2 : 1;
    f->bytes[6] = 1;
    put(f, 16, ET_DYN, 2);
    put(f, 18, machine, 2);
    put_native(f, 24 + word, table);
    put(f, f->wide ? 54 : 42, entry, 2);
    put(f, f->wide ? 56 : 44, 2, 2);
    for (int i = 0; i < 2; i++) {
        size_t at = table + (size_t)i * entry;
        put(f, at, i == 0 ? PT_LOAD : PT_DYNAMIC, 4);
        put_native(f, at + (f->wide ? 8 : 4), i == 0 ? 0 : 0x200);
        put_native(f, at + (f->wide ? 16 : 8), i == 0 ? 0x1000 : 0x1200);
        put_native(f, at + (f->wide ? 32 : 16), i == 0 ? 4096 : 14 * word);
        put_native(f, at + (f->wide ? 40 : 20), i == 0 ? 4096 : 14 * word);
    }
}

static void put_tables(image *f)
{
    const uint64_t dynamic[][2] = {{DT_HASH, 0x1300},
                                   {DT_SYMTAB, 0x1400},
                                   {DT_STRTAB, 0x1500},
                                   {DT_STRSZ, 32},
                                   {DT_SYMENT, f->wide ? 24 : 16},
                                   {DT_NULL, 0}};
    size_t word = f->wide ? 8 : 4, symbol = 0x400 + (f->wide ? 24 : 16);
    for (size_t i = 0; i < 6; i++) {
        put_native(f, 0x200 + 2 * i * word, dynamic[i][0]);
        put_native(f, 0x200 + (2 * i + 1) * word, dynamic[i][1]);
    }
    put(f, 0x300, 1, 4); /* one bucket, two symbols */
    put(f, 0x304, 2, 4);
    put(f, 0x308, 1, 4);
    memcpy(f->bytes + 0x501, "tenon_plugin", 13);
    put(f, symbol, 1, 4);
    put_native(f, symbol + (f->wide ? 8 : 4), 0x1800);
    put_native(f, symbol + (f->wide ? 16 : 8), f->wide ? 248 : 244);
    f->bytes[symbol + (f->wide ? 4 : 12)] = STT_OBJECT | STB_GLOBAL << 4;
    put(f, symbol + (f->wide ? 6 : 14), 1, 2);
}

static void put_block(image *f, uint32_t machine)
{
    const uint32_t words[] = {f->wide ? 248 : 244, 0x544e0001, 2, 2, 1, machine, f->wide ? 64 : 32, 0, 0, 0};
    memcpy(f->bytes + 0x800, "TENON\x1a\x0d\x0a", 8);
    for (size_t i = 0; i < 10; i++) put(f, 0x808 + 4 * i, words[i], 4);
    memcpy(f->bytes + 0x830, "built", 6);
    memcpy(f->bytes + 0x850, "3.1", 4);
}

Test(elf_info, every_word_size_and_byte_order_is_read)
{
    for (int model = 0; model < 4; model++) {
        image f = {.wide = model & 1, .big = model >> 1};
        tni_elf_info found;
        tni_reason reason = {""};
        put_headers(&f, 62);
        put_tables(&f);
        put_block(&f, 62);
        int32_t status = examine_bytes(f.bytes, sizeof(f.bytes), &found, &reason);
        cr_assert_eq(found.pointer_bits, f.wide ? 64 : 32, "%s", reason.text);
        cr_assert_eq(found.big_endian, (uint32_t)f.big);
        cr_assert_str_eq(found.info.name, "built");
        cr_assert_str_eq(found.info.version, "3.1");
        cr_assert_eq(found.info.stamp, 0x544e0001);
        if (f.big) assert_contains(reason.text, "byte order: expected little endian, found big endian");
        if (!f.wide) assert_contains(reason.text, "pointer bits: expected 64, found 32");
        cr_assert_eq(status == TN_OK, f.wide && !f.big);
    }
}

Test(elf_info, all_differences_are_named_at_once)
{
    image f = {.wide = 1};
    tni_elf_info found;
    tni_reason reason = {""};
    put_headers(&f, 243);
    put_tables(&f);
    put_block(&f, 62);
    put(&f, 0x810, 5, 4);              /* abi_min */
    put(&f, 0x814, 6, 4);              /* abi_max */
    memset(f.bytes + 0x850, 'x', 32);  /* version without an end */
    memcpy(f.bytes + 0x830, "a b", 4); /* a name with a blank */
    cr_assert_eq(examine_bytes(f.bytes, sizeof(f.bytes), &found, &reason), TN_E_VERSION);
    assert_contains(reason.text, "found RISC-V (243)");
    assert_contains(reason.text, "ABI generation: expected 2 to 2, found 5 to 6");
    assert_contains(reason.text, "version: not zero-terminated");
    assert_contains(reason.text, "name: character 0x20 is not allowed");
}

Test(elf_info, a_plain_plugin_is_fine_in_a_sanitised_host)
{
    tni_elf_info found;
    tni_reason reason = {""};
    tni_elf_host host = tni_elf_host_here();
    if (examine(skewed("sound"), &found, &reason) != TN_OK) cr_assert_fail("%s", reason.text);
    host.sanitizer = TN_SANITIZER_ADDRESS;
    found.info.sanitizer = 0;
    cr_assert_eq(tni_elf_info_check(&found, &host, &reason), TN_OK);
    host.sanitizer = 0;
    found.info.sanitizer = TN_SANITIZER_ADDRESS;
    cr_assert_eq(tni_elf_info_check(&found, &host, &reason), TN_E_VERSION);
    cr_assert_str_eq(reason.text, "sanitizer: the plugin was compiled with address, this process has none");
}

/* ---- Fields that are wrong, one at a time -------------------------------------------------------------- */

/* A field of a file of 64-bit words: where, how wide, its new value. */
typedef struct wrong {
    size_t at;
    int width;
    uint64_t value;
    const char *text;
} wrong;

static void expect_refusal(const wrong *w, image *f)
{
    tni_elf_info found;
    tni_reason reason = {""};
    put(f, w->at, w->value, w->width);
    cr_expect_neq(examine_bytes(f->bytes, sizeof f->bytes, &found, &reason), TN_OK, "%s", w->text);
    cr_expect_not_null(strstr(reason.text, w->text), "expected '%s' in '%s'", w->text, reason.text);
}

static void sound_image(image *f)
{
    *f = (image){.wide = 1};
    put_headers(f, 62);
    put_tables(f);
    put_block(f, 62);
}

static void expect_refusals(const wrong *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        image f;
        sound_image(&f);
        expect_refusal(&cases[i], &f);
    }
}

Test(elf_info, each_wrong_field_of_the_file_has_its_text)
{
    static const wrong cases[] = {
        {4, 1, 3, "corrupt ELF file: class 3"},
        {5, 1, 0, "corrupt ELF file: byte order 0"},
        {16, 2, ET_EXEC, "not a shared library: ELF type 2"},
        {54, 2, 32, "corrupt ELF file: 2 program headers of 32 bytes"},
        {56, 2, 0, "corrupt ELF file: 0 program headers of 56 bytes"},
        {56, 2, 513, "corrupt ELF file: 513 program headers of 56 bytes"},
        {32, 8, UINT64_MAX - 60, "truncated ELF file: a program header at offset 18446744073709551555"},
        {64 + 32, 8, 4097, "truncated ELF file: a segment needs 4097 bytes at offset 0, the file has 4096"},
        {64 + 16, 8, 0x9000, "corrupt ELF file: the symbol hash table at address 0x1300 is in no segment"},
        {0x200, 8, 99, "no dynamic symbols: 'tenon_plugin' is not exported"}, /* no hash table */
        {0x210, 8, 99, "no dynamic symbols: 'tenon_plugin' is not exported"}, /* no symbols */
        {0x220, 8, 99, "no dynamic symbols: 'tenon_plugin' is not exported"}, /* no strings */
        {0x248, 8, 16, "corrupt ELF file: symbols of 16 bytes"},
        {0x238, 8, 1, "the file exports no symbol 'tenon_plugin': not a plugin"}, /* bytes of strings */
        {0x238, 8, 8, "the file exports no symbol 'tenon_plugin': not a plugin"},
        {0x228, 8, 0x1ffa, "the string table lies in .bss"},
        {0x218, 8, 0x7777, "the symbol table at address 0x778f is in no segment"},
        {0x300, 4, 0, "the file exports no symbol 'tenon_plugin': not a plugin"}, /* no buckets */
        {0x308, 4, 0, "the file exports no symbol 'tenon_plugin': not a plugin"}, /* an empty bucket */
        {0x308, 4, 0x10000000, "the symbol table at address 0x180001400 is in no segment"},
        {0x418 + 6, 2, SHN_UNDEF, "'tenon_plugin' is imported, not exported"},
        {0x418 + 4, 1, STT_FUNC, "'tenon_plugin' is not a data object"},
        {0x418 + 16, 8, 247, "'tenon_plugin' is too small: expected 248 bytes, found 247"},
        {0x418 + 8, 8, 0x1ff0, "'tenon_plugin' lies in .bss"},
    };
    expect_refusals(cases, sizeof cases / sizeof *cases);
}

/* The name differs in one letter and the chain leads back to itself: the walk ends all the same. */
Test(elf_info, a_hash_chain_without_an_end_is_refused)
{
    const wrong endless = {0x310, 4, 1, "corrupt ELF file: the symbol hash table does not end"};
    const wrong other = {0x310, 4, 0, "the file exports no symbol 'tenon_plugin': not a plugin"};
    const wrong outside = {0x310, 4, 0x10000000, "is in no segment"};
    image f;
    sound_image(&f);
    f.bytes[0x501] = 'T';
    expect_refusal(&endless, &f);
    expect_refusal(&other, &f);
    expect_refusal(&outside, &f);
}

/* The GNU table of a name: one bucket, chains from symbol 1 on. Its hash begins with 5381, times 33 a letter. */
Test(elf_info, a_gnu_hash_table_is_walked_to_its_end)
{
    uint32_t hash = 5381;
    for (const char *c = "tenon_plugin"; *c; c++) hash = hash * 33 + (unsigned char)*c;
    image f;
    sound_image(&f);
    put(&f, 0x200, DT_GNU_HASH, 8);
    put(&f, 0x208, 0x1600, 8);
    put(&f, 0x600, 1, 4);        /* buckets */
    put(&f, 0x604, 1, 4);        /* the first symbol */
    put(&f, 0x608, 1, 4);        /* words of the filter */
    put(&f, 0x618, 1, 4);        /* the bucket, behind the filter */
    put(&f, 0x61c, hash | 1, 4); /* its chain: one symbol, the last */
    tni_elf_info found;
    tni_reason reason = {""};
    cr_assert_eq(examine_bytes(f.bytes, sizeof f.bytes, &found, &reason), TN_OK, "%s", reason.text);
    cr_assert_str_eq(found.info.name, "built");
    image endless = f;
    const wrong cases[] = {
        {0x61c, 4, (hash ^ 2) | 1, "the file exports no symbol 'tenon_plugin': not a plugin"},
        {0x618, 4, 0, "the file exports no symbol 'tenon_plugin': not a plugin"},
        {0x600, 4, 0, "the file exports no symbol 'tenon_plugin': not a plugin"},
        {0x608, 4, 0x70000000, "the symbol hash table at address"},
        {0x208, 8, 0x1ffe, "the symbol hash table lies in .bss"},
        {0x208, 8, 0x1ffa, "the symbol hash table lies in .bss"},
        {0x208, 8, 0x1ff6, "the symbol hash table lies in .bss"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        image one = f;
        expect_refusal(&cases[i], &one);
    }
    /* A symbol of the same hash and another name, then the end. */
    endless.bytes[0x501] = 'T';
    const wrong other = {0x61c, 4, hash | 1, "the file exports no symbol 'tenon_plugin': not a plugin"};
    expect_refusal(&other, &endless);
}

Test(elf_info, a_gnu_chain_without_an_end_is_refused)
{
    enum { bytes = 300000 };
    image f;
    tni_elf_info found;
    tni_reason reason = {""};
    sound_image(&f);
    put(&f, 0x200, DT_GNU_HASH, 8);
    put(&f, 0x208, 0x2000, 8);
    put(&f, 64 + 32, bytes, 8); /* the segment: of the whole file */
    put(&f, 64 + 40, bytes, 8);
    unsigned char *large = calloc(bytes, 1); /* zeros: no chain ends */
    memcpy(large, f.bytes, sizeof f.bytes);
    large[4096] = large[4096 + 4] = 1;
    large[4096 + 16] = 1;
    cr_assert_eq(examine_bytes(large, bytes, &found, &reason), TN_E_CORRUPT);
    cr_assert_str_eq(reason.text, "corrupt ELF file: the symbol hash table does not end");
    free(large);
}

Test(elf_info, more_segments_than_any_library_has)
{
    image f;
    tni_elf_info found;
    tni_reason reason = {""};
    sound_image(&f);
    put(&f, 56, 65, 2);
    memset(f.bytes + 64 + 112, 0, 63 * 56);
    for (size_t i = 0; i < 65; i++) put(&f, 64 + 56 * i, PT_LOAD, 4);
    cr_assert_eq(examine_bytes(f.bytes, sizeof f.bytes, &found, &reason), TN_E_CORRUPT);
    cr_assert_str_eq(reason.text, "corrupt ELF file: more than 64 segments");
}

Test(elf_info, a_folder_is_not_a_library)
{
    tni_elf_info found;
    tni_reason reason = {""};
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(tni_elf_info_read(fd, &found, &reason), TN_E_CORRUPT);
    cr_assert_str_eq(reason.text, "not a regular file");
    close(fd);
}

/* ---- Blocks that are wrong ----------------------------------------------------------------------------- */

/* The numbers are those of the ELF specification's list of machines. */
Test(elf_info, machines_by_name)
{
    static const struct {
        uint32_t number;
        const char *text;
    } machines[] = {{3, "found x86 (3)"},           {8, "found MIPS (8)"},
                    {20, "found PowerPC (20)"},     {21, "found PowerPC64 (21)"},
                    {22, "found s390 (22)"},        {40, "found ARM (40)"},
                    {183, "found AArch64 (183)"},   {243, "found RISC-V (243)"},
                    {258, "found LoongArch (258)"}, {999, "found unknown machine (999)"}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        image f;
        const wrong machine = {18, 2, machines[i].number, machines[i].text};
        sound_image(&f);
        expect_refusal(&machine, &f);
    }
}

Test(elf_info, each_wrong_field_of_the_block_has_its_text)
{
    static const wrong cases[] = {
        {0x80c, 4, 0x12340001, "stamp mark: expected 21582, found 4660"},
        {0x810, 4, 0, "ABI generations: 0 to 2 is not a range"},
        {0x810, 4, 3, "ABI generations: 3 to 2 is not a range"},
        {0x824, 4, 1 | 2 | 4 | 8,
         "the plugin was compiled with address thread memory unknown, this process has "},
        {0x828, 4, 6, "flags: unknown bits 0x6"},
        {0x82c, 4, 7, "reserved: expected 0, found 7"},
        {0x830, 1, 0, "name: empty"},
        {0x850, 1, 0x7f, "version: character 0x7f is not allowed"},
        {0x850, 1, 0x1f, "version: character 0x1f is not allowed"},
    };
    expect_refusals(cases, sizeof cases / sizeof *cases);
}

Test(elf_info, a_host_of_another_byte_order_or_later_generations)
{
    tni_elf_info found;
    tni_reason reason = {""};
    tni_elf_host host = tni_elf_host_here();
    cr_assert_eq(examine(skewed("sound"), &found, &reason), TN_OK);
    host.big_endian = 1;
    host.abi_min = 3, host.abi_max = 4;
    cr_assert_eq(tni_elf_info_check(&found, &host, &reason), TN_E_VERSION);
    assert_contains(reason.text, "byte order: expected big endian, found little endian");
    assert_contains(reason.text, "ABI generation: expected 3 to 4, found 2 to 2");
    host = tni_elf_host_here();
    found.info.abi_max = 9;
    cr_assert_eq(tni_elf_info_check(&found, &host, &reason), TN_OK, "a range that has the host's generation");
}

Test(elf_info, blocks_that_differ)
{
    tni_elf_info found;
    tni_reason reason = {""};
    cr_assert_eq(examine(skewed("sound"), &found, &reason), TN_OK);
    tn_plugin_info other = found.info;
    cr_assert(tni_elf_info_equal(&found.info, &other, &reason));
    other.magic[0] = 'X';
    other.flags = 1;
    strcpy(other.name, "other");
    cr_assert_not(tni_elf_info_equal(&found.info, &other, &reason));
    cr_assert_str_eq(reason.text,
                     "magic differs; flags: expected 0, found 1; name: 'skewed' in the file, 'other' loaded");
}

/* A reason is cut where its room ends, and never written past it. */
Test(elf_info, a_long_reason_is_cut)
{
    tni_reason reason = {""};
    char word[101];
    memset(word, 'x', 100);
    word[100] = 0;
    for (int i = 0; i < 50; i++) tni_reason_add(&reason, "%s", word);
    cr_assert_eq(strlen(reason.text), sizeof reason.text - 1);
    cr_assert_eq(strncmp(reason.text + 100, "; xxx", 5), 0);
}
