/* SPDX-License-Identifier: Apache-2.0 */
/* What other files of this room ask about a file of PyTorch. */
#ifndef FILES_PT_H
#define FILES_PT_H

#include <tenon/files.h>

/* Whether value i is a tensor, and the last one of its name. */
int32_t pt_is_tensor(const tn_pt *f, uint64_t i);
/* tn_pt_tensors on a device: tensors that share a storage in the file share one there. */
tn_named_tensors pt_tensors_on(tn_scope *s, tn_pt *f, const char *prefix, tn_device device);

#endif
