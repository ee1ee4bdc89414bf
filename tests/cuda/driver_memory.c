/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and copies of the libcuda.so.1 for tests; memory that is mapped is a file for each piece. */
#include "driver.h"

/* ---- Memory ------------------------------------------------------------------------------------------------- */

EXPORT CUresult cuMemGetInfo(size_t *available, size_t *total)
{
    BEGIN(1)
    *total = MEMORY;
    *available = MEMORY - c->used;
    END
}

/* Blocks are in the order of their addresses, 256 bytes apart. NULL: there is no room. */
static block *make_block(CUcontext c, size_t bytes, size_t alignment)
{
    size_t at = alignment;
    int i = 0;
    while (i < c->n_blocks && c->blocks[i].begin < at + bytes + 256) {
        at = (c->blocks[i].begin + c->blocks[i].bytes + 255 + alignment) / alignment * alignment;
        i++;
    }
    if (bytes > ADDRESSES || at + bytes > ADDRESSES || c->n_blocks == BLOCKS) return NULL;
    memmove(c->blocks + i + 1, c->blocks + i, (size_t)(c->n_blocks++ - i) * sizeof *c->blocks);
    c->blocks[i] = (block){.begin = at, .bytes = bytes};
    c->live++;
    return &c->blocks[i];
}

/* The block that begins at the address, or NULL. */
static block *block_at(CUcontext c, CUdeviceptr address)
{
    for (int i = 0; i < c->n_blocks; i++)
        if (c->range + c->blocks[i].begin == (char *)(uintptr_t)address) return &c->blocks[i];
    return NULL;
}

static void remove_block(CUcontext c, block *b)
{
    memmove(b, b + 1, (size_t)(--c->n_blocks - (b - c->blocks)) * sizeof *b);
    c->live--;
}

EXPORT CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    BEGIN(1)
    REFUSE(!bytes, CUDA_ERROR_INVALID_VALUE)
    REFUSE(bytes > MEMORY - c->used, CUDA_ERROR_OUT_OF_MEMORY)
    block *b = make_block(c, bytes, 256);
    REFUSE(!b, CUDA_ERROR_OUT_OF_MEMORY)
    c->used += bytes;
    memset(c->bytes + b->begin, 0xff, bytes);
    *out = (CUdeviceptr)(uintptr_t)(c->range + b->begin);
    END
}

/* ---- Managed memory ----------------------------------------------------------------------------------------- */

#define PAGE 4096

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags)
{
    BEGIN(1)
    REFUSE(!bytes || flags != CU_MEM_ATTACH_GLOBAL, CUDA_ERROR_INVALID_VALUE)
    REFUSE(bytes > MEMORY - c->used, CUDA_ERROR_OUT_OF_MEMORY)
    const size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    block *b = make_block(c, room, PAGE);
    REFUSE(!b, CUDA_ERROR_OUT_OF_MEMORY)
    b->is_managed = b->is_open = 1;
    c->used += room;
    memset(c->bytes + b->begin, 0xff, room);
    mmap(c->range + b->begin, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c->file, (off_t)b->begin);
    *out = (CUdeviceptr)(uintptr_t)(c->range + b->begin);
    END
}

static void forget_managed(CUcontext c, const block *b)
{
    mmap(c->range + b->begin, b->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
}

static int is_within(CUcontext c, const block *b, CUdeviceptr address)
{
    const char *p = (const char *)(uintptr_t)address, *begin = c->range + b->begin;
    return p >= begin && p < begin + b->bytes;
}

static int uses(CUcontext c, const block *b, const work *w)
{
    CUdeviceptr address;
    if (is_within(c, b, w->to_device) || is_within(c, b, w->from_device)) return 1;
    for (uint32_t i = 0; w->kind == LAUNCH && i < w->kernel->n_arguments; i++) {
        if (w->kernel->sizes[i]) continue;
        memcpy(&address, w->arguments[i], sizeof address);
        if (is_within(c, b, address)) return 1;
    }
    return 0;
}

static int is_in_use(CUcontext c, const block *b)
{
    for (CUstream s = streams; s; s = s->next) {
        if (s->running && uses(c, b, s->running)) return 1;
        for (const work *w = s->first; w; w = w->next)
            if (uses(c, b, w)) return 1;
    }
    return 0;
}

void watch_managed(const work *w)
{
    for (int k = 0; k < DEVICES; k++)
        for (int i = 0; i < contexts[k].n_blocks; i++) {
            CUcontext c = &contexts[k];
            block *b = &c->blocks[i];
            if (!b->is_managed || !uses(c, b, w)) continue;
            const int is_open = !is_in_use(c, b);
            if (is_open != b->is_open)
                mprotect(c->range + b->begin, b->bytes, is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
            b->is_open = is_open;
        }
}

EXPORT CUresult cuMemFree(CUdeviceptr address)
{
    BEGIN(1)
    block *b = block_at(c, address);
    REFUSE(!b || b->is_reserved, CUDA_ERROR_INVALID_VALUE)
    if (b->is_managed) forget_managed(c, b);
    memset(c->bytes + b->begin, 0xff, b->bytes);
    c->used -= b->bytes;
    remove_block(c, b);
    END
}

/* ---- Memory that is mapped ---------------------------------------------------------------------------------- */

#define GRANULARITY ((size_t)64 << 10)
#define FILE_NAME   "cuda-test-memory"

EXPORT CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *properties,
                                              CUmemAllocationGranularity_flags option)
{
    BEGIN(1)
    *out = GRANULARITY;
    END
}

static CUmemGenericAllocationHandle make_physical(CUcontext c, int file, size_t bytes, int is_imported)
{
    physical *p = malloc(sizeof *p);
    *p = (physical){.context = c, .file = file, .references = 1, .bytes = bytes, .is_imported = is_imported};
    c->live++;
    if (!is_imported) c->used += bytes;
    return (CUmemGenericAllocationHandle)(uintptr_t)p;
}

static void release_physical(physical *p)
{
    if (--p->references) return;
    close(p->file);
    p->context->live--;
    if (!p->is_imported) p->context->used -= p->bytes;
    free(p);
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                            const CUmemAllocationProp *properties, unsigned long long flags)
{
    BEGIN(1)
    REFUSE(properties->type != CU_MEM_ALLOCATION_TYPE_PINNED || properties->location.id != c->device ||
               properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !bytes ||
               bytes % GRANULARITY,
           CUDA_ERROR_INVALID_VALUE)
    REFUSE(bytes > MEMORY - c->used, CUDA_ERROR_OUT_OF_MEMORY)
    int file = memfd_create(FILE_NAME, MFD_CLOEXEC);
    REFUSE(file < 0 || ftruncate(file, (off_t)bytes), CUDA_ERROR_OUT_OF_MEMORY)
    *out = make_physical(c, file, bytes, 0);
    END
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    BEGIN(1)
    release_physical((physical *)(uintptr_t)handle);
    END
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wanted,
                                    unsigned long long flags)
{
    BEGIN(1)
    REFUSE(!bytes || bytes % GRANULARITY, CUDA_ERROR_INVALID_VALUE)
    block *b = make_block(c, bytes, alignment ? alignment : GRANULARITY);
    REFUSE(!b, CUDA_ERROR_OUT_OF_MEMORY)
    b->is_reserved = 1;
    *out = (CUdeviceptr)(uintptr_t)(c->range + b->begin);
    END
}

/* The number of the first piece that ends behind a place. */
static int piece_at(CUcontext c, size_t at)
{
    int i = 0;
    while (i < c->n_pieces && c->pieces[i].begin + c->pieces[i].bytes <= at) i++;
    return i;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    BEGIN(1)
    block *b = block_at(c, address);
    REFUSE(!b || b->bytes != bytes || !b->is_reserved, CUDA_ERROR_INVALID_VALUE)
    const int i = piece_at(c, b->begin);
    REFUSE(i < c->n_pieces && c->pieces[i].begin < b->begin + bytes, CUDA_ERROR_INVALID_VALUE)
    remove_block(c, b);
    END
}

/* Whether the addresses were reserved, together. */
static int is_reserved(CUcontext c, size_t at, size_t bytes)
{
    for (int i = 0; i < c->n_blocks; i++)
        if (c->blocks[i].is_reserved && at >= c->blocks[i].begin &&
            at + bytes <= c->blocks[i].begin + c->blocks[i].bytes)
            return 1;
    return 0;
}

EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    BEGIN(1)
    physical *p = (physical *)(uintptr_t)handle;
    const size_t begin = (size_t)address - (size_t)c->range;
    const int i = piece_at(c, begin);
    REFUSE(!is_reserved(c, begin, bytes) || (i < c->n_pieces && c->pieces[i].begin < begin + bytes) ||
               offset || bytes > p->bytes || c->n_pieces == BLOCKS,
           CUDA_ERROR_INVALID_VALUE)
    void *at = mmap(c->bytes + begin, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->file, 0);
    REFUSE(at == MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY)
    memmove(c->pieces + i + 1, c->pieces + i, (size_t)(c->n_pieces++ - i) * sizeof *c->pieces);
    c->pieces[i] = (piece){.begin = begin, .bytes = bytes, .mapped = p};
    p->references++;
    END
}

/* Of whole pieces that follow each other. */
EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    BEGIN(1)
    const size_t begin = (size_t)address - (size_t)c->range;
    const int first = piece_at(c, begin);
    size_t at = begin;
    for (int i = first; i < c->n_pieces && at < begin + bytes && c->pieces[i].begin == at; i++)
        at += c->pieces[i].bytes;
    unsigned users = 0;
    for (size_t i = 0; i < count; i++) {
        REFUSE(access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || access[i].location.id >= DEVICES ||
                   access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
               CUDA_ERROR_INVALID_VALUE)
        users |= 1u << access[i].location.id;
    }
    REFUSE(!bytes || at != begin + bytes || !count, CUDA_ERROR_INVALID_VALUE)
    for (int i = first; i < c->n_pieces && c->pieces[i].begin < begin + bytes; i++)
        c->pieces[i].users |= users;
    END
}

/* A piece as it was mapped. */
EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    BEGIN(1)
    const size_t begin = (size_t)address - (size_t)c->range;
    const int i = piece_at(c, begin);
    REFUSE(i == c->n_pieces || c->pieces[i].begin != begin || c->pieces[i].bytes != bytes,
           CUDA_ERROR_INVALID_VALUE)
    mmap(c->bytes + begin, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, c->file,
         (off_t)begin);
    release_physical(c->pieces[i].mapped);
    memmove(c->pieces + i, c->pieces + i + 1, (size_t)(--c->n_pieces - i) * sizeof *c->pieces);
    END
}

EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType type, unsigned long long flags)
{
    BEGIN(1)
    REFUSE(type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED)
    int file = fcntl(((physical *)(uintptr_t)handle)->file, F_DUPFD_CLOEXEC, 0);
    memcpy(out, &file, sizeof file);
    END
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *handle,
                                               CUmemAllocationHandleType type)
{
    BEGIN(1)
    char link[64], name[128] = "";
    struct stat facts;
    int file = (int)(uintptr_t)handle;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    REFUSE(readlink(link, name, sizeof name - 1) < 0 || !strstr(name, FILE_NAME) || fstat(file, &facts),
           CUDA_ERROR_INVALID_VALUE)
    *out = make_physical(c, fcntl(file, F_DUPFD_CLOEXEC, 0), (size_t)facts.st_size, 1);
    END
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    BEGIN(1)
    void *memory = bytes <= MEMORY ? aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : NULL;
    REFUSE(!memory, CUDA_ERROR_OUT_OF_MEMORY)
    *out = memory;
    c->live++;
    END
}

EXPORT CUresult cuMemFreeHost(void *memory)
{
    BEGIN(1)
    free(memory);
    c->live--;
    END
}

/* Of memory that is mapped, the piece. */
EXPORT CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    BEGIN(1)
    REFUSE(!place_of(c, address, 1), CUDA_ERROR_NOT_FOUND)
    const int at = piece_at(c, (size_t)address - (size_t)c->range);
    if (at < c->n_pieces && c->pieces[at].begin <= (size_t)address - (size_t)c->range) {
        *base = (CUdeviceptr)(uintptr_t)(c->range + c->pieces[at].begin);
        *bytes = c->pieces[at].bytes;
        goto end;
    }
    for (int i = 0; i < c->n_blocks; i++)
        if ((size_t)address - (size_t)c->range >= c->blocks[i].begin) {
            *base = (CUdeviceptr)(uintptr_t)(c->range + c->blocks[i].begin);
            *bytes = c->blocks[i].bytes;
        }
    END
}

EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    BEGIN(1)
    REFUSE(attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CUDA_ERROR_INVALID_VALUE)
    result = CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < DEVICES; i++)
        if (contexts[i].range && place_of(&contexts[i], address, 1)) {
            *(int *)data = i;
            result = CUDA_SUCCESS;
        }
    END
}

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    BEGIN(1)
    result = queue(c, stream,
                   (work){.kind = COPY, .to_device = to, .to_context = c, .from = from, .bytes = bytes});
    END
}

EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    BEGIN(1)
    result = queue(c, stream,
                   (work){.kind = COPY, .to = to, .from_device = from, .from_context = c, .bytes = bytes});
    END
}

static work copy_between(CUcontext to_context, CUdeviceptr to, CUcontext from_context, CUdeviceptr from,
                         size_t bytes)
{
    return (work){.kind = COPY,
                  .to_device = to,
                  .to_context = to_context,
                  .from_device = from,
                  .from_context = from_context,
                  .bytes = bytes};
}

EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    BEGIN(1)
    result = queue(c, stream, copy_between(c, to, c, from, bytes));
    END
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                  CUcontext from_context, size_t bytes, CUstream stream)
{
    BEGIN(1)
    result = queue(c, stream, copy_between(to_context, to, from_context, from, bytes));
    END
}

#define FILL_FUNCTION(name, type)                                                   \
    EXPORT CUresult name(CUdeviceptr to, type value, size_t count, CUstream stream) \
    {                                                                               \
        BEGIN(1)                                                                    \
        REFUSE(to % sizeof value, CUDA_ERROR_INVALID_VALUE)                         \
        result = queue(c, stream,                                                   \
                       (work){.kind = FILL,                                         \
                              .to_device = to,                                      \
                              .to_context = c,                                      \
                              .bytes = count * sizeof value,                        \
                              .value = value,                                       \
                              .width = sizeof value});                              \
        END                                                                         \
    }
FILL_FUNCTION(cuMemsetD8Async, unsigned char)
FILL_FUNCTION(cuMemsetD16Async, unsigned short)
FILL_FUNCTION(cuMemsetD32Async, unsigned)
