/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host in miniature, for the parts of the kit that load a plugin without the library: errors, logs that go
 * nowhere, names, memory. It calls no kernels; who does adds the slots that take a call.
 */
#ifndef TENON_KIT_MINI_HOST_H
#define TENON_KIT_MINI_HOST_H

#include <tenon/plugin.h>

/* The first member of a struct that extends it: the host's context points to it. */
typedef struct mini_host {
    tn_host host;
    char error[256]; /* the last one, with the vendor's own number and text */
} mini_host;

void mini_host_init(mini_host *h);

#endif
