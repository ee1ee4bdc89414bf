/* SPDX-License-Identifier: Apache-2.0 */
/* Storages and tensors that are part of a block: see block.h. */
#include "core/block.h"

void tni_block_embed_tensor(tni_block *b)
{
    b->tensor = (tn_tensor){
        .desc = {.size = sizeof b->tensor.desc,
                 .layout = TN_INTERNED_STRIDED,
                 .device = b->storage.device->id,
                 .byte_offset = b->offset,
                 .allocation = b->allocation,
                 .host = b->host,
                 .address = b->address,
                 .sizes = b->tensor.inline_dims},
        .storage = &b->storage,
        .ctx = b->storage.ctx,
        .dims = b->tensor.inline_dims,
    };
}

void tni_block_embed(tni_block *b)
{
    tni_device *device = tni_allocator_device(b->allocator);
    b->storage = (tni_storage){
        .flags = TNI_STORAGE_EMBEDDED,
        .ctx = device->ctx,
        .device = device,
        .allocation = b->allocation,
        .offset = b->offset,
        .host = b->host,
        .address = b->address,
        .block = b,
    };
    tni_block_embed_tensor(b);
}

tni_storage *tni_tensor_restore(tn_tensor *t)
{
    tni_block *home = tni_block_of_tensor(t);
    t->autograd = NULL;
    if (TNI_LIKELY(tni_tensor_is_as_made(t))) return &home->storage;
    tni_tensor_free_dims(t);
    if (t->storage != &home->storage) tni_storage_release(t->storage);
    tni_block_embed_tensor(home);
    return &home->storage;
}
