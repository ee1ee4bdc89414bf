/* SPDX-License-Identifier: Apache-2.0 */
/* What a profiler puts into a process: it counts the ranges that NVTX tells it of. */
#include <nvtx3/nvToolsExt.h>
#include <string.h>

#define TEST_API __attribute__((visibility("default")))

TEST_API int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
/* Ranges of this name that began, or that are open if it is NULL. */
TEST_API int injection_count(const char *name);

#define NAMES 256
static char names[NAMES][64];
static int n_names;
static __thread int depth;

static int NVTX_API push(const char *name)
{
    if (n_names < NAMES) strncpy(names[n_names++], name, sizeof *names - 1);
    return depth++;
}

static int NVTX_API pop(void)
{
    return --depth;
}

int injection_count(const char *name)
{
    int n = 0;
    for (int i = 0; name && i < n_names; i++) n += strcmp(names[i], name) == 0;
    return name ? n : depth;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size)) return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)(uintptr_t)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)(uintptr_t)pop;
    return 1;
}
