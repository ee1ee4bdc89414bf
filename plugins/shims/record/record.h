/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the record shim share: the file (write.c), values and memory (values.c), the tool
 * (record.c). */
#ifndef TENON_SHIM_RECORD_H
#define TENON_SHIM_RECORD_H

#include "shim.h"

#include "record_format.h"

#include <stdio.h>

/* A growing buffer. `failed` stays set once memory was short. */
typedef struct record_buffer {
    char *data;
    size_t used;
    size_t room;
    int32_t failed;
} record_buffer;

/* An open device. */
typedef struct record_device {
    void *handle;
    shim_plugin *plugin;
} record_device;
#define RECORD_DEVICES 64u /* at the same time; kernels on further ones are refused */

typedef struct record_file {
    FILE *file;
    pthread_mutex_t lock;
    uint64_t records;
    int32_t failed;
    uint32_t plugins;
    uint64_t *blobs; /* ids of those that are in the file, open addressing, 0: free */
    uint64_t n_blobs, blob_room;
    record_device devices[RECORD_DEVICES];
    uint32_t n_devices;
} record_file;

/* Memory of the device that the host sees for a while. */
typedef struct record_view {
    void *host;
    uint64_t bytes;
} record_view;
#define RECORD_VIEWS 64u /* at the same time; the bytes of further ones are not recorded */

/* A running kernel. */
typedef struct record_kernel {
    const shim_plugin *owner; /* of the device that it runs on: the kernel may be of an operator library */
    record_buffer call;       /* its arguments */
    record_buffer host_calls; /* that it made */
    uint32_t n_host_calls;
} record_kernel;

typedef struct record_plugin {
    uint32_t index;
    uint32_t n_views;
    pthread_mutex_t lock;
    record_view views[RECORD_VIEWS];
    void **allocations; /* that live now */
    size_t n_allocations, room;
} record_plugin;

/* write.c */
void record_u32(record_buffer *b, uint32_t value);
void record_u64(record_buffer *b, uint64_t value);
void record_text(record_buffer *b, const char *text);
void record_bytes(record_buffer *b, const void *data, size_t bytes);
/* Writes a record and frees the buffer. */
void record_write(record_file *f, uint32_t tag, record_buffer *b);
/* The id of these bytes, written if they are new. */
uint64_t record_blob(record_file *f, const void *data, size_t bytes);

/* values.c */
void record_value(const shim_call *c, record_buffer *b, const tn_value *v);
void record_nest(const shim_call *c, record_buffer *b, const tn_nest *n);
/* The plugin on whose device the kernel runs; its note is there already. */
const shim_plugin *record_owner(const shim_call *c);
/* Waits for the stream of the call, so that its memory may be read. */
int32_t record_wait(const shim_call *c);
/* Remembers mappings; forgets one and gives its bytes, 0 when it is not known. */
void record_mapped(record_plugin *p, void *host, uint64_t bytes);
uint64_t record_unmapped(record_plugin *p, const void *host);
/* Remembers and forgets allocations. */
void record_allocated(record_plugin *p, void *allocation);
void record_freed(record_plugin *p, const void *allocation);

#endif
