/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fourier transforms of lines by cuFFT or hipFFT, if it is installed. A plan of the library is made for a shape of lines and kept;
 * its work is in the call's own workspace. The family's kernels do the rest, among them transforms to real lines, for which
 * the library would write over its input.
 */
#include "cufft.h"
#include "libraries.h"

typedef struct cuda_fft {
    cuda_library base;
#define DECLARE(result, name, arguments) result(*name) arguments;
    CUFFT_FUNCTIONS(DECLARE)
#undef DECLARE
} cuda_fft;

typedef struct fft_key {
    uint64_t size, lines;
    int64_t in_step, in_apart, out_step, out_apart;
    int64_t type;
} fft_key;

typedef struct fft_plan {
    gpu_plan head;
    fft_key key;
    int64_t is_made;
    fft_handle plan;
    size_t workspace;
} fft_plan;

static void destroy_plan(const cuda_library *l, gpu_plan *p)
{
    const fft_plan *f = (fft_plan *)p;
    if (f->is_made) ((const cuda_fft *)l)->cufftDestroy(f->plan);
}

static int make_plan(cuda_library *l, gpu_plan *plan, const void *user)
{
    const cuda_fft *f = (cuda_fft *)l;
    fft_plan *p = (fft_plan *)plan;
    const fft_key *k = &p->key;
    long long size = (long long)k->size, in_size = size,
              out_size = k->type == FFT_C2C || k->type == FFT_Z2Z ? size : size / 2 + 1;
    int result = f->cufftCreate(&p->plan);
    p->is_made = !result;
    if (!result) result = f->cufftSetAutoAllocation(p->plan, 0);
    if (!result)
        result = f->cufftMakePlanMany64(p->plan, 1, &size, &in_size, k->in_step, k->in_apart, &out_size,
                                        k->out_step, k->out_apart, (int)k->type, (long long)k->lines,
                                        &p->workspace);
    return result;
}

static int execute(const cuda_fft *f, fft_handle plan, const gpu_transform *t, int type)
{
    void *in = cuda_place(t->in.memory, t->in.offset), *out = cuda_place(t->out.memory, t->out.offset);
    switch (type) {
    case FFT_C2C:
        return f->cufftExecC2C(plan, in, out, t->is_backward ? FFT_INVERSE : FFT_FORWARD);
    case FFT_Z2Z:
        return f->cufftExecZ2Z(plan, in, out, t->is_backward ? FFT_INVERSE : FFT_FORWARD);
    case FFT_R2C:
        return f->cufftExecR2C(plan, in, out);
    default:
        return f->cufftExecD2Z(plan, in, out);
    }
}

static int32_t meaning(int result)
{
    if (VENDOR_FFT_REFUSES(result)) return TN_E_UNSUPPORTED;
    switch (result) {
    case FFT_INVALID_TYPE:
    case FFT_INVALID_VALUE:
    case FFT_INVALID_SIZE:
    case FFT_NOT_IMPLEMENTED:
    case FFT_NOT_SUPPORTED:
        return TN_E_UNSUPPORTED;
    default:
        return result == FFT_ALLOC_FAILED ? TN_E_OUT_OF_MEMORY : TN_E_INTERNAL;
    }
}

/* What fails before the work is queued is left to the kernels. */
static int32_t transform(cuda_device *d, cuda_library *l, void *queue, const tn_call *call, const void *asked)
{
    const cuda_fft *f = (cuda_fft *)l;
    const gpu_transform *t = asked;
    const int is_double = t->dtype == GPU_F64;
    const int type = t->is_real ? is_double ? FFT_D2Z : FFT_R2C : is_double ? FFT_Z2Z : FFT_C2C;
    const fft_key key = {t->size, t->lines, t->in_step, t->in_apart, t->out_step, t->out_apart, type};
    void *work = NULL;
    uint64_t offset = 0;
    gpu_plan *found;
    int32_t status = cuda_plan_find(d, l, &(cuda_plan_request){call, &key, make_plan, NULL}, &found);
    if (status) return status;
    const fft_plan *p = (fft_plan *)found;
    if (p->workspace) status = gpu_workspace(call, p->workspace, &work, &offset);
    if (status) return status;
    int result = f->cufftSetStream(p->plan, cuda_stream_of(queue));
    if (!result) /* also where it needs none: some versions do not run without */
        result = f->cufftSetWorkArea(p->plan, cuda_place(work, offset));
    if (result) {
        found->is_supported = meaning(result) != TN_E_UNSUPPORTED;
        return TN_E_UNSUPPORTED;
    }
    result = execute(f, p->plan, t, type);
    if (VENDOR_FFT_EXEC_REFUSES(result)) {
        found->is_supported = 0;
        return TN_E_UNSUPPORTED;
    }
    return result ? cuda_library_error(d, l, call, result, NAME(cufftExec)) : TN_OK;
}

/* ---- The library -------------------------------------------------------------------------------------------- */

static size_t version(const cuda_library *l)
{
    int number = 0;
    ((const cuda_fft *)l)->cufftGetVersion(&number);
    return (size_t)number;
}

static const char *status_name(const cuda_library *l, int status)
{
    static const char *const names[] = {VENDOR_FFT_STATUS("SUCCESS"),
                                        VENDOR_FFT_STATUS("INVALID_PLAN"),
                                        VENDOR_FFT_STATUS("ALLOC_FAILED"),
                                        VENDOR_FFT_STATUS("INVALID_TYPE"),
                                        VENDOR_FFT_STATUS("INVALID_VALUE"),
                                        VENDOR_FFT_STATUS("INTERNAL_ERROR"),
                                        VENDOR_FFT_STATUS("EXEC_FAILED"),
                                        VENDOR_FFT_STATUS("SETUP_FAILED"),
                                        VENDOR_FFT_STATUS("INVALID_SIZE"),
                                        VENDOR_FFT_STATUS("UNALIGNED_DATA"),
                                        VENDOR_FFT_STATUS("INCOMPLETE_PARAMETER_LIST"),
                                        VENDOR_FFT_STATUS("INVALID_DEVICE"),
                                        VENDOR_FFT_STATUS("PARSE_ERROR"),
                                        VENDOR_FFT_STATUS("NO_WORKSPACE"),
                                        VENDOR_FFT_STATUS("NOT_IMPLEMENTED"),
                                        [FFT_NOT_SUPPORTED] = VENDOR_FFT_STATUS("NOT_SUPPORTED")};
    static const int count = sizeof names / sizeof *names;
    const char *name = status >= 0 && status < count ? names[status] : NULL;
    return name ? name : "unknown status";
}

static const cuda_library_kind kind = {.name = VENDOR_FFT,
                                       .work = "Fourier transforms",
                                       .files = VENDOR_FFT_FILES,
                                       CUDA_LIBRARY_SYMBOLS(CUFFT_FUNCTIONS),
                                       .size = sizeof(cuda_fft),
                                       .has_no_handle = 1,
                                       .version = version,
                                       .status_name = status_name,
                                       .meaning = meaning,
                                       CUDA_LIBRARY_PLANS(fft_key, fft_plan, destroy_plan)};

int32_t cuda_fft_transform(void *device, void *queue, const tn_call *call, const gpu_transform *t)
{
    const uint32_t pair = t->dtype == GPU_F64 ? 16 : 8; /* real lines, too, are read as pairs */
    if (cuda_alignment(cuda_place(t->in.memory, t->in.offset)) < pair ||
        cuda_alignment(cuda_place(t->out.memory, t->out.offset)) < pair)
        return TN_E_UNSUPPORTED;
    return cuda_library_run(device, &kind, transform, queue, call, t);
}
