/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens oneDNN and fills the table of its functions. Only builds with OpenMP are used: their number of
 * threads belongs to the calling thread and can be set for one call.
 */
#include "onednn.h"
#include "support/limits.h"
#include "support/signals.h"
#include "support/team.h"
#include "support/users.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Instruction sets are bit masks: those that include this one have it. */
#define BFLOAT16_ISA ((unsigned)dnnl_cpu_isa_avx512_core_bf16)

static cpu_onednn table;
static const cpu_onednn *_Atomic opened;
static cpu_users users;
static atomic_bool given_up;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char description[512];

/* dlsym returns a data pointer; memcpy turns it into a function pointer. */
static int find(void *library, const char *name, void *out_function)
{
    void *address = dlsym(library, name);
    memcpy(out_function, &address, sizeof(address));
    return address != NULL;
}

static int find_all(void *library)
{
    int found = find(library, "omp_set_num_threads", &table.omp_set_num_threads) &&
                find(library, "omp_get_max_threads", &table.omp_get_max_threads);
#define FIND(name) found = found && find(library, "dnnl_" #name, &table.name);
    CPU_ONEDNN_FUNCTIONS(FIND)
#undef FIND
    return found;
}

static const char *isa_name(dnnl_cpu_isa_t isa)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {
        {dnnl_cpu_isa_sse41, "SSE4.1"},
        {dnnl_cpu_isa_avx, "AVX"},
        {dnnl_cpu_isa_avx2, "AVX2"},
        {dnnl_cpu_isa_avx2_vnni, "AVX2 with VNNI"},
        {dnnl_cpu_isa_avx512_core, "AVX-512"},
        {dnnl_cpu_isa_avx512_core_vnni, "AVX-512 with VNNI"},
        {dnnl_cpu_isa_avx512_core_bf16, "AVX-512 with bfloat16"},
        {dnnl_cpu_isa_avx512_core_amx, "AVX-512 with AMX"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].isa == isa) return names[i].name;
    return "another instruction set";
}

static void describe(void *library)
{
    const dnnl_version_t *(*version)(void) = NULL;
    dnnl_cpu_isa_t (*isa)(void) = NULL;
    const char *file = "";
    Dl_info place;
    if (!find(library, "dnnl_version", &version) || !find(library, "dnnl_get_effective_cpu_isa", &isa)) {
        snprintf(description, sizeof description, "oneDNN (version unknown)");
        return;
    }
    if (dladdr((void *)(uintptr_t)version, &place) && place.dli_fname) file = place.dli_fname;
    snprintf(description, sizeof description, "oneDNN %d.%d.%d, %s: %s", version()->major, version()->minor,
             version()->patch, isa_name(isa()), file);
}

/* The library's objects are destroyed when the process ends, before those of the program that are older. This handler,
 * registered after the library's, runs before it. */
static void process_ends(void)
{
    atomic_store(&opened, NULL);
    cpu_users_close(&users);
}
/* This thread leaves oneDNN. */
static void leave(void)
{
    /* What oneDNN makes at the first call of a kind is destroyed before handlers that are older, so the handler is
     * registered anew after 1, 2, 4, 8, ... calls. */
    uint32_t left = cpu_users_leave(&users) + 1;
    if ((left & (left - 1)) == 0) (void)atexit(process_ends);
}

static void process_has_forked(void)
{
    cpu_users_forget(&users);
}

/* The library is never closed after its code has run: its threads and objects live as long as the process. */
static void open_library(void)
{
    void *library;
    int (*pause)(int kind) = NULL;
    if (cpu_memory_is_tight()) { /* it ends the process when memory is refused */
        snprintf(description, sizeof description, "oneDNN is not used: " CPU_MEMORY_IS_TIGHT);
        return;
    }
    library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(description, sizeof description, "oneDNN is absent: %s", dlerror());
        return;
    }
    if (!find_all(library)) {
        snprintf(description, sizeof description,
                 "oneDNN is not used: libdnnl.so.2 lacks a function, or does not use OpenMP");
        dlclose(library);
        return;
    }
    snprintf(description, sizeof description,
             "oneDNN is not used: it cannot make an engine for the processor");
    if (table.engine_create(&table.engine, dnnl_cpu, 0) != dnnl_success) return;
    if (table.primitive_attr_create(&table.attr) != dnnl_success) return;
    if (table.primitive_attr_set_scratchpad_mode(table.attr, dnnl_scratchpad_mode_user) != dnnl_success)
        return;
    if (!dlsym(library, "kmp_set_defaults") && find(library, "omp_pause_resource_all", &pause))
        cpu_team_also_ends_by(pause);
    table.has_bfloat16 = ((unsigned)table.get_effective_cpu_isa() & BFLOAT16_ISA) == BFLOAT16_ISA;
    describe(library);
    /* Without the handler the process would crash at its end. */
    if (pthread_atfork(NULL, NULL, process_has_forked) != 0 || atexit(process_ends) != 0) return;
    atomic_store(&opened, &table);
}

const cpu_onednn *cpu_onednn_get(void)
{
    pthread_once(&once, open_library);
    return atomic_load_explicit(&opened, memory_order_acquire);
}

bool cpu_onednn_was_given_up(void)
{
    return atomic_load(&given_up);
}

void cpu_onednn_check(const tn_call *call, dnnl_status_t status)
{
    char line[160];
    if (status == dnnl_success || status == dnnl_out_of_memory || status == dnnl_invalid_arguments) return;
    if (atomic_exchange(&given_up, true)) return;
    atomic_store(&opened, NULL);
    snprintf(line, sizeof line, "cpu: oneDNN failed with status %d and is not used any more", (int)status);
    call->host->log(call->host->context, TN_LOG_WARN, line);
}

const char *cpu_onednn_describe(void)
{
    cpu_onednn_get();
    return description;
}

int cpu_onednn_begin(const cpu_onednn *dnn, int32_t threads)
{
    int before, wanted = threads > 0 ? threads : 1;
    if (!cpu_users_enter(&users)) return -1;
    before = dnn->omp_get_max_threads();
    if (wanted != before) dnn->omp_set_num_threads(wanted);
    return before;
}

void cpu_onednn_end(const cpu_onednn *dnn, int token)
{
    if (dnn->omp_get_max_threads() != token) dnn->omp_set_num_threads(token);
    leave();
}

/* ---- Steps ------------------------------------------------------------------------------------------- */

/* The name of the implementation ("ref:any", "gemm:jit", "x64:gemm:jit", "brg:avx512_core"). */
static const char *name_of(const cpu_onednn *dnn, const_dnnl_primitive_desc_t d)
{
    const char *name = NULL;
    return dnn->primitive_desc_query(d, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name ? name
                                                                                                    : "ref";
}

bool cpu_onednn_is_fast(const cpu_onednn *dnn, const_dnnl_primitive_desc_t d)
{
    return strncmp(name_of(dnn, d), "ref", 3) != 0;
}

bool cpu_onednn_step_make(const cpu_onednn *dnn, dnnl_primitive_desc_t d, cpu_onednn_step *out)
{
    if (!cpu_users_enter(&users)) return false; /* the process ends, and `d` with it */
    const dnnl_memory_desc_t *scratch = dnn->primitive_desc_query_md(d, dnnl_query_scratchpad_md, 0);
    bool made = dnn->primitive_create(&out->primitive, d) == dnnl_success;
    if (scratch) {
        out->scratch = *scratch;
        out->scratch_bytes = (int64_t)dnn->memory_desc_get_size(scratch);
    }
    /* Primitives remember the number of threads, and those of one thread make no others. */
    if (strstr(name_of(dnn, d), "gemm:"))
        out->signals =
            dnn->omp_get_max_threads() > 1 ? CPU_ONEDNN_SIGNALS_BLOCKED : CPU_ONEDNN_ALL_SIGNALS_BLOCKED;
    dnn->primitive_desc_destroy(d);
    leave();
    return made;
}

static dnnl_status_t run_blocked(const cpu_onednn *dnn, const cpu_onednn_step *step, dnnl_stream_t stream,
                                 int count, const dnnl_exec_arg_t *args)
{
    dnnl_status_t status;
    if (step->signals == CPU_ONEDNN_ALL_SIGNALS_BLOCKED) {
        uint64_t before = cpu_signals_block_all();
        status = dnn->primitive_execute(step->primitive, stream, count, args);
        cpu_signals_restore_all(before);
    } else if (step->signals == CPU_ONEDNN_SIGNALS_BLOCKED) {
        sigset_t before;
        cpu_signals_block(&before);
        status = dnn->primitive_execute(step->primitive, stream, count, args);
        cpu_signals_restore(&before);
    } else {
        status = dnn->primitive_execute(step->primitive, stream, count, args);
    }
    return status;
}

static dnnl_status_t execute(const cpu_onednn *dnn, const cpu_onednn_step *step,
                             const cpu_onednn_operand *operands, int count)
{
    dnnl_exec_arg_t args[CPU_ONEDNN_OPERANDS];
    dnnl_stream_t stream;
    dnnl_status_t status = dnn->stream_create(&stream, dnn->engine, dnnl_stream_default_flags);
    int made = 0;
    if (status != dnnl_success) return status;
    for (; made < count && status == dnnl_success; made++) {
        args[made].arg = operands[made].name;
        status =
            dnn->memory_create(&args[made].memory, operands[made].layout, dnn->engine, operands[made].data);
        if (status != dnnl_success) break;
    }
    if (status == dnnl_success) status = run_blocked(dnn, step, stream, count, args);
    if (status == dnnl_success) status = dnn->stream_wait(stream);
    while (made-- > 0) dnn->memory_destroy(args[made].memory);
    dnn->stream_destroy(stream);
    return status;
}

int32_t cpu_onednn_step_run(const tn_call *call, const cpu_onednn *dnn, const cpu_onednn_step *step,
                            cpu_onednn_operand *operands, int count, void *scratch)
{
    dnnl_status_t status;
    if (step->scratch_bytes > 0)
        operands[count++] = (cpu_onednn_operand){DNNL_ARG_SCRATCHPAD, &step->scratch, scratch};
    status = execute(dnn, step, operands, count);
    cpu_onednn_check(call, status);
    return status == dnnl_success ? TN_OK : TN_E_UNSUPPORTED;
}
