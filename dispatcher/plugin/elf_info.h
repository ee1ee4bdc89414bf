/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block `tenon_plugin` of a shared library, read from the ELF file without loading it: static
 * constructors run inside dlopen, so nothing that could be refused may be loaded first.
 *
 * Files of either word size and byte order are read, so that the refusal of a plugin for another machine says
 * so. Every offset is checked against the file; a hostile file gives a reason, never a crash.
 */
#ifndef TNI_PLUGIN_ELF_INFO_H
#define TNI_PLUGIN_ELF_INFO_H

#include <tenon/plugin.h>
#include "dispatcher/plugin/reason.h"

/* The kind of the file, and its block in the host's byte order. `info.entry` is NULL: it is not relocated. */
typedef struct tni_elf_info {
    uint32_t machine; /* ELF e_machine */
    uint32_t pointer_bits;
    uint32_t big_endian;
    tn_plugin_info info;
} tni_elf_info;

/* The host, with which a plugin is compared. */
typedef struct tni_elf_host {
    uint32_t machine;
    uint32_t pointer_bits;
    uint32_t big_endian;
    uint32_t abi_min;
    uint32_t abi_max;
    uint32_t sanitizer; /* bits of TN_SANITIZER_... */
} tni_elf_host;

/* This library. */
tni_elf_host tni_elf_host_here(void);

/*
 * Reads the block of an open file. TN_E_IO: cannot be read; TN_E_CORRUPT: not a sound ELF shared library;
 * TN_E_NOT_FOUND: no usable `tenon_plugin`. Writes *out on success, else *reason.
 */
int32_t tni_elf_info_read(int fd, TN_OUT tni_elf_info *out, TN_OUT tni_reason *reason);
/* Compares all fields. TN_E_VERSION and a reason that names each field that differs, expected and found. */
int32_t tni_elf_info_check(const tni_elf_info *found, const tni_elf_host *host, TN_OUT tni_reason *reason);
/* 1 if both blocks are equal except for the entry. Else *reason names the fields that differ. */
int32_t tni_elf_info_equal(const tn_plugin_info *file, const tn_plugin_info *loaded,
                           TN_OUT tni_reason *reason);

#endif
