/* SPDX-License-Identifier: Apache-2.0 */
/* Where libzip writes an archive to: an open file, from its beginning. libzip's own files lie beside the archive under a longer
 * name, and do not keep the old one's owner. */
#ifndef FILES_ZIP_SINK_H
#define FILES_ZIP_SINK_H

#include <zip.h>

typedef struct zip_sink {
    int descriptor;
    zip_uint64_t at, bytes;
    zip_error_t error;
} zip_sink;

/* A source for zip_open_from_source with ZIP_CREATE. The sink must live as long as the archive. NULL: out of memory. */
zip_source_t *zip_sink_source(zip_sink *sink);

#endif
