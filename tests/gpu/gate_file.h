/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_TESTS_GPU_GATE_FILE_H
#define TENON_TESTS_GPU_GATE_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { GATE_NAME = 160 };

/* Names the file that holds late work (late.h). The gate is open: the name is no other's, and no killed process has left it. */
static inline void name_gate(char name[GATE_NAME])
{
    const char *folder = getenv("TMPDIR");
    snprintf(name, GATE_NAME, "%s/tenon_gate_XXXXXX", folder ? folder : P_tmpdir);
    int file = mkstemp(name);
    if (file < 0) return;
    close(file);
    unlink(name);
}
#endif
