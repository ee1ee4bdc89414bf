/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the block of a plugin with the host, and the block in a file with the loaded one. All fields are
 * compared, so that a refusal names everything that is wrong.
 */
#include "dispatcher/plugin/elf_info.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

tni_elf_host tni_elf_host_here(void)
{
    const uint32_t one = 1;
    tni_elf_host host = {
        .machine = TN_ARCHITECTURE,
        .pointer_bits = (uint32_t)sizeof(void *) * 8,
        .big_endian = *(const unsigned char *)&one == 0,
        .abi_min = TN_ABI_GENERATION,
        .abi_max = TN_ABI_GENERATION,
        .sanitizer = TN_SANITIZER,
    };
    return host;
}

static const char *machine_name(uint32_t machine)
{
    switch (machine) {
    case 3:
        return "x86";
    case 8:
        return "MIPS";
    case 20:
        return "PowerPC";
    case 21:
        return "PowerPC64";
    case 22:
        return "s390";
    case 40:
        return "ARM";
    case 62:
        return "x86-64";
    case 183:
        return "AArch64";
    case 243:
        return "RISC-V";
    case 258:
        return "LoongArch";
    default:
        return "unknown machine";
    }
}

static const char *sanitizer_names(uint32_t sanitizer, char text[64])
{
    snprintf(text, 64, "%s%s%s%s", sanitizer & TN_SANITIZER_ADDRESS ? " address" : "",
             sanitizer & TN_SANITIZER_THREAD ? " thread" : "",
             sanitizer & TN_SANITIZER_MEMORY ? " memory" : "", sanitizer & ~7u ? " unknown" : "");
    return text[0] ? text + 1 : "none";
}

static void expect(tni_reason *reason, const char *field, uint64_t expected, uint64_t found)
{
    if (expected != found)
        tni_reason_add(reason, "%s: expected %llu, found %llu", field, (unsigned long long)expected,
                       (unsigned long long)found);
}

/* The machine, byte order and word size of the file. */
static void check_file(const tni_elf_info *found, const tni_elf_host *host, tni_reason *reason)
{
    if (found->machine != host->machine)
        tni_reason_add(reason, "architecture: expected %s (%u), found %s (%u)", machine_name(host->machine),
                       host->machine, machine_name(found->machine), found->machine);
    if (found->big_endian != host->big_endian)
        tni_reason_add(reason, "byte order: expected %s, found %s",
                       host->big_endian ? "big endian" : "little endian",
                       found->big_endian ? "big endian" : "little endian");
    expect(reason, "pointer bits", host->pointer_bits, found->pointer_bits);
}

static void check_abi(const tn_plugin_info *info, const tni_elf_host *host, tni_reason *reason)
{
    if (info->abi_min > info->abi_max || info->abi_min == 0)
        tni_reason_add(reason, "ABI generations: %u to %u is not a range", info->abi_min, info->abi_max);
    else if (info->abi_max < host->abi_min || info->abi_min > host->abi_max)
        tni_reason_add(reason, "ABI generation: expected %u to %u, found %u to %u%s", host->abi_min,
                       host->abi_max, info->abi_min, info->abi_max,
                       info->abi_max < host->abi_min ? " (compile the plugin with this library's headers)"
                                                     : "");
}

static void check_sanitizer(const tn_plugin_info *info, const tni_elf_host *host, tni_reason *reason)
{
    char expected[64], found[64];
    if (info->sanitizer & ~host->sanitizer)
        tni_reason_add(reason, "sanitizer: the plugin was compiled with %s, this process has %s",
                       sanitizer_names(info->sanitizer, found), sanitizer_names(host->sanitizer, expected));
}

/* A string of the block must be terminated and printable. Users type names, so these have no blanks. */
static void check_text(const char *field, const char *text, size_t bytes, int32_t is_name, tni_reason *reason)
{
    const char *end = memchr(text, 0, bytes);
    if (!end) {
        tni_reason_add(reason, "%s: not zero-terminated", field);
        return;
    }
    if (is_name && end == text) tni_reason_add(reason, "%s: empty", field);
    for (const char *c = text; c < end; c++) {
        unsigned char u = (unsigned char)*c;
        if (is_name ? !(isalnum(u) || strchr("_-.", u)) : u < 0x20 || u == 0x7f) {
            tni_reason_add(reason, "%s: character 0x%02x is not allowed", field, u);
            return;
        }
    }
}

static void check_texts(const tn_plugin_info *info, tni_reason *reason)
{
    check_text("name", info->name, sizeof(info->name), 1, reason);
    check_text("version", info->version, sizeof(info->version), 0, reason);
    check_text("vendor", info->vendor, sizeof(info->vendor), 0, reason);
    check_text("build id", info->build_id, sizeof(info->build_id), 0, reason);
}

int32_t tni_elf_info_check(const tni_elf_info *found, const tni_elf_host *host, tni_reason *reason)
{
    const tn_plugin_info *info = &found->info;
    uint32_t size = (uint32_t)offsetof(tn_plugin_info, entry) + found->pointer_bits / 8;
    reason->text[0] = 0;
    if (memcmp(info->magic, TN_PLUGIN_MAGIC, sizeof(info->magic)) != 0)
        return tni_reason_set(reason, TN_E_VERSION,
                              "magic: '%s' does not begin with the bytes of a Tenon plugin",
                              TN_PLUGIN_SYMBOL);
    if (info->stamp == 0)
        tni_reason_add(reason, "stamp: 0; the block must be written with TN_DEFINE_PLUGIN");
    else
        expect(reason, "stamp mark", TN_PLUGIN_STAMP >> 16, info->stamp >> 16);
    check_file(found, host, reason);
    expect(reason, "size of the block", size, info->size);
    check_abi(info, host, reason);
    /* The block must agree with the file that it is in. */
    expect(reason, "architecture in the block", found->machine, info->architecture);
    expect(reason, "pointer bits in the block", found->pointer_bits, info->pointer_bits);
    check_sanitizer(info, host, reason);
    if (info->flags & ~TN_PLUGIN_CAN_UNLOAD)
        tni_reason_add(reason, "flags: unknown bits 0x%x", info->flags & ~TN_PLUGIN_CAN_UNLOAD);
    expect(reason, "reserved", 0, info->reserved);
    check_texts(info, reason);
    return reason->text[0] ? TN_E_VERSION : TN_OK;
}

static void same_text(tni_reason *reason, const char *field, const char *file, const char *loaded, int bytes)
{
    if (memcmp(file, loaded, (size_t)bytes) != 0)
        tni_reason_add(reason, "%s: '%.*s' in the file, '%.*s' loaded", field, bytes, file, bytes, loaded);
}

int32_t tni_elf_info_equal(const tn_plugin_info *file, const tn_plugin_info *loaded, tni_reason *reason)
{
    reason->text[0] = 0;
    if (memcmp(file->magic, loaded->magic, sizeof(file->magic)) != 0) tni_reason_add(reason, "magic differs");
    expect(reason, "size of the block", file->size, loaded->size);
    expect(reason, "stamp", file->stamp, loaded->stamp);
    expect(reason, "abi_min", file->abi_min, loaded->abi_min);
    expect(reason, "abi_max", file->abi_max, loaded->abi_max);
    expect(reason, "header minor", file->header_minor, loaded->header_minor);
    expect(reason, "architecture", file->architecture, loaded->architecture);
    expect(reason, "pointer bits", file->pointer_bits, loaded->pointer_bits);
    expect(reason, "sanitizer", file->sanitizer, loaded->sanitizer);
    expect(reason, "flags", file->flags, loaded->flags);
    expect(reason, "reserved", file->reserved, loaded->reserved);
    same_text(reason, "name", file->name, loaded->name, (int)sizeof(file->name));
    same_text(reason, "version", file->version, loaded->version, (int)sizeof(file->version));
    same_text(reason, "vendor", file->vendor, loaded->vendor, (int)sizeof(file->vendor));
    same_text(reason, "build id", file->build_id, loaded->build_id, (int)sizeof(file->build_id));
    return reason->text[0] == 0;
}
