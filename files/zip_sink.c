/* SPDX-License-Identifier: Apache-2.0 */
/* See zip_sink.h. libzip asks for one command after another; there is nothing to read. */
#include "zip_sink.h"

#include <errno.h>
#include <unistd.h>

static zip_int64_t sink_write(zip_sink *sink, const char *from, zip_uint64_t bytes)
{
    for (zip_uint64_t done = 0; done < bytes;) {
        const zip_uint64_t most = bytes - done < 1u << 30 ? bytes - done : 1u << 30;
        const ssize_t n = pwrite(sink->descriptor, from + done, most, (off_t)(sink->at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            zip_error_set(&sink->error, ZIP_ER_WRITE, errno);
            return -1;
        }
        done += (zip_uint64_t)n;
    }
    sink->at += bytes;
    if (sink->at > sink->bytes) sink->bytes = sink->at;
    return (zip_int64_t)bytes;
}

static zip_int64_t sink_seek(zip_sink *sink, void *data, zip_uint64_t bytes)
{
    const zip_int64_t to = zip_source_seek_compute_offset(sink->at, sink->bytes, data, bytes, &sink->error);
    if (to >= 0) sink->at = (zip_uint64_t)to;
    return to < 0 ? -1 : 0;
}

static zip_int64_t answer(void *user, void *data, zip_uint64_t bytes, zip_source_cmd_t command)
{
    zip_sink *sink = user;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS:
        return ZIP_SOURCE_SUPPORTS_WRITABLE;
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&sink->error, data, bytes);
    case ZIP_SOURCE_STAT: /* there is no archive yet */
        zip_error_set(&sink->error, ZIP_ER_READ, ENOENT);
        return -1;
    case ZIP_SOURCE_WRITE:
        return sink_write(sink, data, bytes);
    case ZIP_SOURCE_SEEK_WRITE:
        return sink_seek(sink, data, bytes);
    case ZIP_SOURCE_TELL_WRITE:
        return (zip_int64_t)sink->at;
    case ZIP_SOURCE_BEGIN_WRITE:
    case ZIP_SOURCE_COMMIT_WRITE:
    case ZIP_SOURCE_ROLLBACK_WRITE: /* the file is removed by its owner */
    case ZIP_SOURCE_FREE:
        return 0;
    default:
        zip_error_set(&sink->error, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

zip_source_t *zip_sink_source(zip_sink *sink)
{
    zip_error_init(&sink->error);
    return zip_source_function_create(answer, sink, NULL);
}
