/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Level Zero driver for tests: devices whose kernels run on PoCL (OpenCL on the processor). The loader takes it from
 * ZE_ENABLE_ALT_DRIVERS. It is as strange as the specification allows, and watches those who use it:
 *
 *   - Commands run on a thread of their list. Those between two barriers run in any order: here the last one first.
 *   - Device memory cannot be touched by the host: the addresses that are given out fault, and the memory itself lies at a
 *     fixed distance. New memory is filled with 0xC5. Shared memory faults, too, while queued commands use the allocation.
 *   - Events of lists in order count the list's commands: one that was used and reset has come until a command signals it again,
 *     and the host cannot signal it. Lists of another card that wait for it are reported.
 *   - Wrong structure types, dead handles, objects that are in use, calls of two threads at once, lists that wait for what only
 *     the host can signal, and what is left when a context ends are reported.
 *
 * The environment asks for more, in the words of ../opencl/faulty_icd.c:
 *
 *   ZE_TEST_REPORT=FILE                 reports are appended to it (default: standard error)
 *   ZE_TEST_CACHE=FOLDER                keeps translated modules
 *   FAULTY_FAIL=FUNCTION:N:RESULT       call N (from 1 on) of the function gives the result, and the object of one that destroys
 *                                       is gone nevertheless. FUNCTION is `work`: command N fails while it runs. After
 *                                       ZE_RESULT_ERROR_DEVICE_LOST (0x70000001) the devices are lost: everything else gives
 *                                       that, too
 *   FAULTY_FAIL_TOO=FUNCTION:N:RESULT   the same of another call
 *   ZE_TEST_FAULTS=1                    calls that fail so are reported
 *   ZE_TEST_UUID=a                      device i has the uuid of 16 bytes 'a' + i and the address 0000:65+i:00.0, as the devices
 *                                       of ../cuda/libcuda.c; without it none is known. Tiles have the address of their card
 *   ZE_TEST_PRIORITIES=1                the priority of each new list is reported
 *   ZE_TEST_INTEGRATED=1                the devices are integrated
 *   ZE_TEST_SHARED=BITS                 what they can do with shared memory (ZE_MEMORY_ACCESS_CAP_FLAG_...); without it all
 *   FAULTY_NO_PEERS=1                   devices do not reach each other's memory
 *   FAULTY_LARGEST=BYTES                larger memory is not allocated
 *   FAULTY_NO_DOUBLE=1                  devices have no float64, and refuse modules with a double in them
 *   ZE_TEST_UNROUNDED=1                 they do not round divisions and roots of float32 correctly
 *   ZE_TEST_FLAGS=1                     the build flags of each new module are reported
 *   ZE_TEST_INDICES=1                   and the engine of each new list
 *   ZE_TEST_POOLS=1                     and whether the events of each new pool have times
 *   ZE_TEST_VERSION=MINOR               version 1.MINOR of the specification, without it 1.7. Before 1.2 nothing knows cycles per
 *                                       second; before 1.7 the flag of lists in order is ignored
 *   ZE_TEST_DRIVER=NUMBER               the version of the driver
 *   ZE_TEST_HERTZ, ZE_TEST_BITS         the clock of timestamps, and their bits
 *   ZE_TEST_NPU=1                       there is an NPU, too: the first device
 *   ZE_TEST_MEMORY, ZE_TEST_LARGEST     bytes of a device, and of an allocation that does not ask for more
 *   ZE_TEST_LIMITED=1                   none may ask for more
 *   ZE_TEST_TILES=1                     the devices are tiles of one card, whose memory system management shows for each; 2: and
 *                                       they know their numbers
 *   FAULTY_DELAY, FAULTY_GATE, FAULTY_UNASKED, FAULTY_MEETING   work that writes device memory is late: ../gpu/late.h. If the host
 *                                       has to ask, reads are late, too. Those who meet are in calls of a list
 */
#include "ze_driver.h"

/* ---- Reports, faults ---------------------------------------------------------------------------------------- */

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
int is_lost;

void lose(void)
{
    is_lost = 1;
    pthread_cond_broadcast(&changed);
    for (ze_command_list_handle_t list = lists; list; list = list ? list->next : lists) {
        if (!list->is_running) continue;
        pthread_cond_wait(&changed, &lock);
        list = NULL;
    }
}

/* The result that this call has to give, or ZE_RESULT_SUCCESS; under the lock. */
ze_result_t fault_of(const char *function)
{
    static struct {
        const char *setting;
        char function[64];
        int n, calls;
        unsigned result;
        int is_read;
    } faults[] = {{.setting = "FAULTY_FAIL"}, {.setting = "FAULTY_FAIL_TOO"}};
    ze_result_t result = is_lost ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
    for (int i = 0; i < 2; i++) {
        __typeof__(&faults[i]) f = &faults[i];
        const char *text = getenv(f->setting);
        if (!f->is_read && text) sscanf(text, "%63[^:]:%d:%i", f->function, &f->n, (int *)&f->result);
        f->is_read = 1;
        if (is_lost || strcmp(f->function, function) != 0 || ++f->calls != f->n) continue;
        if (setting("ZE_TEST_FAULTS")) report("%s fails", function);
        if ((ze_result_t)f->result == ZE_RESULT_ERROR_DEVICE_LOST) lose();
        result = (ze_result_t)f->result;
    }
    return result;
}

long setting_or(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

long setting(const char *name)
{
    return setting_or(name, 0);
}

uint64_t memory_bytes(void)
{
    return (uint64_t)setting_or("ZE_TEST_MEMORY", (long)MEMORY);
}

static uint32_t version(void)
{
    return ZE_MAKE_VERSION(1, (uint32_t)setting_or("ZE_TEST_VERSION", 7));
}

int keeps_order(void)
{
    return version() >= ORDER_VERSION || setting("ZE_TEST_DRIVER") >= INTEL_ORDER_BUILD;
}

uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct _ze_driver_handle_t the_driver = {.o = {.kind = 'd'}};
static struct _ze_device_handle_t devices[DEVICES] = {{.o = {.kind = 'D'}}, {.o = {.kind = 'D'}, .index = 1}};
static struct _ze_device_handle_t npu = {.o = {.kind = 'D'}, .index = DEVICES};
ze_command_list_handle_t lists;

int is_alive(const void *handle, char kind, const char *function)
{
    const object *o = handle;
    if (o->kind == kind && !o->is_dead) return 1;
    report("%s: %s", function, o->kind == kind ? "the handle was destroyed" : "a handle of another kind");
    return 0;
}

static object *all;

/* A new object of that size; under the lock. */
void *make(size_t bytes, char kind)
{
    object *o = calloc(1, bytes);
    if (!o) abort();
    *o = (object){.next = all, .kind = kind};
    all = o;
    return o;
}

/* The object is dead, and freed when GRAVES more have ended; under the lock. */
void end_object(void *handle)
{
    enum { GRAVES = 128 };
    static object *dead[GRAVES];
    static uint32_t n;
    object **grave = &dead[n++ % GRAVES], *old = *grave, **at = &all, *o = handle;
    o->is_dead = 1;
    *grave = o;
    if (!old) return;
    while (*at != old) at = &(*at)->next;
    *at = old->next;
    free(old);
}

ze_result_t leave(ze_result_t result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

/* Two threads in one object at a time. The first one of those who are to meet stays until the other one comes. */
void call_begin(object *o, const char *function)
{
    static atomic_int has_met;
    int is_met = __atomic_exchange_n(&o->is_called, 1, __ATOMIC_ACQ_REL);
    if (is_met) report("%s: two threads at once", function);
    if (!getenv("FAULTY_MEETING") || o->kind != 'L') return;
    if (is_met) atomic_store(&has_met, 1);
    while (!atomic_load(&has_met) && !late_has_file("FAULTY_MEETING")) late_sleep(1);
    atomic_store(&has_met, 1);
}
void call_end(object *o)
{
    __atomic_store_n(&o->is_called, 0, __ATOMIC_RELEASE);
}

/* ---- Driver, devices, contexts ------------------------------------------------------------------------------------ */

ze_result_t ZE_APICALL zeInit(ze_init_flags_t flags)
{
    pthread_mutex_lock(&lock);
    const ze_result_t fault = fault_of(__func__);
    if (fault) return leave(fault);
    return leave(start_opencl() ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNINITIALIZED);
}

ze_result_t ZE_APICALL zeDriverGet(uint32_t *count, ze_driver_handle_t *out)
{
    pthread_mutex_lock(&lock);
    const ze_result_t fault = fault_of(__func__);
    if (fault) return leave(fault);
    if (*count && out) *out = &the_driver;
    *count = 1;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDriverGetApiVersion(ze_driver_handle_t driver, ze_api_version_t *out)
{
    ENTER(driver, 'd');
    *out = (ze_api_version_t)version();
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDriverGetExtensionProperties(ze_driver_handle_t driver, uint32_t *count,
                                                      ze_driver_extension_properties_t *out)
{
    static const char *const names[] = {ZE_PCI_PROPERTIES_EXT_NAME, ZE_RELAXED_ALLOCATION_LIMITS_EXP_NAME};
    const uint32_t n = setting("ZE_TEST_LIMITED") ? 1 : 2;
    ENTER(driver, 'd');
    for (uint32_t i = 0; out && i < n && i < *count; i++) {
        out[i].version = ZE_MAKE_VERSION(1, 0);
        snprintf(out[i].name, sizeof out[i].name, "%s", names[i]);
    }
    if (!out || *count > n) *count = n;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDriverGetProperties(ze_driver_handle_t driver, ze_driver_properties_t *out)
{
    ENTER(driver, 'd');
    EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES);
    out->driverVersion = (uint32_t)setting_or("ZE_TEST_DRIVER", 7);
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDeviceGet(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *out)
{
    ENTER(driver, 'd');
    const uint32_t others = setting("ZE_TEST_NPU") ? 1 : 0;
    for (uint32_t i = 0; out && i < DEVICES + others && i < *count; i++)
        out[i] = i < others ? &npu : &devices[i - others];
    *count = DEVICES + others;
    return leave(ZE_RESULT_SUCCESS);
}

ze_memory_access_cap_flags_t shared_capabilities(void)
{
    return getenv("ZE_TEST_SHARED")
               ? (ze_memory_access_cap_flags_t)setting("ZE_TEST_SHARED")
               : ZE_MEMORY_ACCESS_CAP_FLAG_RW | ZE_MEMORY_ACCESS_CAP_FLAG_ATOMIC |
                     ZE_MEMORY_ACCESS_CAP_FLAG_CONCURRENT | ZE_MEMORY_ACCESS_CAP_FLAG_CONCURRENT_ATOMIC;
}

ze_result_t ZE_APICALL zeDeviceGetMemoryAccessProperties(ze_device_handle_t device,
                                                         ze_device_memory_access_properties_t *out)
{
    ENTER(device, 'D');
    EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_DEVICE_MEMORY_ACCESS_PROPERTIES);
    out->hostAllocCapabilities = out->deviceAllocCapabilities =
        ZE_MEMORY_ACCESS_CAP_FLAG_RW | ZE_MEMORY_ACCESS_CAP_FLAG_ATOMIC;
    out->sharedSingleDeviceAllocCapabilities = shared_capabilities();
    out->sharedCrossDeviceAllocCapabilities = out->sharedSystemAllocCapabilities = 0;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDeviceGetProperties(ze_device_handle_t device, ze_device_properties_t *out)
{
    ENTER(device, 'D');
    const long hertz = setting_or("ZE_TEST_HERTZ", HERTZ);
    const uint32_t bits = (uint32_t)setting_or("ZE_TEST_BITS", VALID_BITS);
    const int in_cycles = out->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
    if (!in_cycles || version() < ZE_API_VERSION_1_2) EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES);
    *out = (ze_device_properties_t){
        .stype = out->stype,
        .type = device == &npu ? ZE_DEVICE_TYPE_VPU : ZE_DEVICE_TYPE_GPU,
        .vendorId = 0x8086,
        .deviceId = 0x7e57,
        .flags = (setting("ZE_TEST_INTEGRATED") ? ZE_DEVICE_PROPERTY_FLAG_INTEGRATED : 0) |
                 (setting("ZE_TEST_TILES") == 2 ? ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE : 0),
        .subdeviceId = device->index,
        .maxMemAllocSize = (uint64_t)setting_or("ZE_TEST_LARGEST", (long)LARGEST),
        .numThreadsPerEU = 8,
        .physicalEUSimdWidth = 8,
        .numEUsPerSubslice = 2,
        .numSubslicesPerSlice = 1,
        .numSlices = 1,
        .timerResolution = (uint64_t)(in_cycles ? hertz : 1000000000 / hertz),
        .timestampValidBits = bits,
        .kernelTimestampValidBits = bits};
    const char *uuid = getenv("ZE_TEST_UUID");
    if (uuid) memset(out->uuid.id, uuid[0] + (int)device->index, sizeof out->uuid.id);
    snprintf(out->name, sizeof out->name, "Level Zero test device %u", device->index);
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDeviceGetStatus(ze_device_handle_t device)
{
    ENTER(device, 'D');
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDevicePciGetPropertiesExt(ze_device_handle_t device, ze_pci_ext_properties_t *out)
{
    ENTER(device, 'D');
    EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES);
    out->address = (ze_pci_address_ext_t){.bus = 0x65 + (setting("ZE_TEST_TILES") ? 0 : device->index)};
    return leave(getenv("ZE_TEST_UUID") ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
}

/* ---- System management: memory of the device or of its card, and some that is the host's -------------------------------------- */

static struct memory_module {
    object o;
    struct _ze_device_handle_t *device; /* NULL: memory of the host */
} modules[DEVICES + 1] = {{{.kind = 'm'}, &devices[0]}, {{.kind = 'm'}, &devices[1]}, {{.kind = 'm'}, NULL}};

ze_result_t ZE_APICALL zesDeviceEnumMemoryModules(zes_device_handle_t handle, uint32_t *count,
                                                  zes_mem_handle_t *out)
{
    ze_device_handle_t device = (ze_device_handle_t)handle;
    uint32_t n = 0;
    ENTER(device, 'D');
    for (uint32_t i = 0; i <= DEVICES; i++) {
        if (i < DEVICES && i != device->index && !setting("ZE_TEST_TILES")) continue;
        if (out && n < *count) out[n] = (zes_mem_handle_t)&modules[i];
        n++;
    }
    *count = n;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zesMemoryGetProperties(zes_mem_handle_t handle, zes_mem_properties_t *out)
{
    const struct memory_module *m = (const struct memory_module *)handle;
    ENTER(&m->o, 'm');
    EXPECT_TYPE(out, ZES_STRUCTURE_TYPE_MEM_PROPERTIES);
    out->location = m->device ? ZES_MEM_LOC_DEVICE : ZES_MEM_LOC_SYSTEM;
    out->onSubdevice = m->device && setting("ZE_TEST_TILES");
    out->subdeviceId = out->onSubdevice ? m->device->index : 0;
    return leave(ZE_RESULT_SUCCESS);
}

/* Somebody else has a quarter of the memory. */
ze_result_t ZE_APICALL zesMemoryGetState(zes_mem_handle_t handle, zes_mem_state_t *out)
{
    const struct memory_module *m = (const struct memory_module *)handle;
    ENTER(&m->o, 'm');
    EXPECT_TYPE(out, ZES_STRUCTURE_TYPE_MEM_STATE);
    out->size = memory_bytes();
    out->free = memory_bytes() / 4 * 3 - (m->device ? m->device->taken : 0);
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDeviceGetModuleProperties(ze_device_handle_t device,
                                                   ze_device_module_properties_t *out)
{
    ENTER(device, 'D');
    EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES);
    out->spirvVersionSupported = ZE_MAKE_VERSION(1, 2);
    out->flags = setting("FAULTY_NO_DOUBLE") ? 0 : ZE_DEVICE_MODULE_FLAG_FP64;
    out->fp32flags = ZE_DEVICE_FP_FLAG_DENORM | ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST |
                     (setting("ZE_TEST_UNROUNDED") ? 0 : ZE_DEVICE_FP_FLAG_ROUNDED_DIVIDE_SQRT);
    out->maxArgumentsSize = 2048;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDeviceGetMemoryProperties(ze_device_handle_t device, uint32_t *count,
                                                   ze_device_memory_properties_t *out)
{
    ENTER(device, 'D');
    if (*count && out) {
        EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES);
        out->totalSize = memory_bytes();
    }
    *count = 1;
    return leave(ZE_RESULT_SUCCESS);
}

/* Group 0 copies only, so that somebody who takes the first one is seen. */
ze_result_t ZE_APICALL zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t device, uint32_t *count,
                                                              ze_command_queue_group_properties_t *out)
{
    ENTER(device, 'D');
    for (uint32_t i = 0; out && i < 2 && i < *count; i++) {
        EXPECT_TYPE(&out[i], ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES);
        out[i].flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY |
                       (i ? ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE : 0);
        out[i].maxMemoryFillPatternSize = 16;
        out[i].numQueues = i ? ENGINES : 1;
    }
    *count = 2;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDeviceCanAccessPeer(ze_device_handle_t device, ze_device_handle_t other,
                                             ze_bool_t *out)
{
    ENTER(device, 'D');
    *out = !setting("FAULTY_NO_PEERS");
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeContextCreate(ze_driver_handle_t driver, const ze_context_desc_t *desc,
                                       ze_context_handle_t *out)
{
    ENTER(driver, 'd');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_CONTEXT_DESC);
    *out = make(sizeof **out, 'C');
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeContextDestroy(ze_context_handle_t context)
{
    ENTER_TO_END(context, 'C');
    if (context->children) report("%s: %d objects of the context are alive", __func__, context->children);
    end_object(context);
    return leave(fault);
}

/* ---- The tables, as the loader asks for them ----------------------------------------------------------------------- */

#define TABLE(name, type, ...)                                                      \
    ZE_DLLEXPORT ze_result_t ZE_APICALL name(ze_api_version_t version, type *table) \
    {                                                                               \
        *table = (type){__VA_ARGS__};                                               \
        return ZE_RESULT_SUCCESS;                                                   \
    }
#define NO_TABLE(name, type) TABLE(name, type, 0)

TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t, .pfnInit = zeInit)
TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t, .pfnGet = zeDriverGet,
      .pfnGetApiVersion = zeDriverGetApiVersion, .pfnGetProperties = zeDriverGetProperties,
      .pfnGetExtensionProperties = zeDriverGetExtensionProperties)
TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t, .pfnGet = zeDeviceGet,
      .pfnGetProperties = zeDeviceGetProperties, .pfnGetModuleProperties = zeDeviceGetModuleProperties,
      .pfnGetMemoryProperties = zeDeviceGetMemoryProperties,
      .pfnGetMemoryAccessProperties = zeDeviceGetMemoryAccessProperties,
      .pfnGetCommandQueueGroupProperties = zeDeviceGetCommandQueueGroupProperties,
      .pfnCanAccessPeer = zeDeviceCanAccessPeer, .pfnGetStatus = zeDeviceGetStatus,
      .pfnPciGetPropertiesExt = zeDevicePciGetPropertiesExt)
TABLE(zeGetContextProcAddrTable, ze_context_dditable_t, .pfnCreate = zeContextCreate,
      .pfnDestroy = zeContextDestroy)
TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t,
      .pfnCreateImmediate = zeCommandListCreateImmediate, .pfnDestroy = zeCommandListDestroy,
      .pfnAppendBarrier = zeCommandListAppendBarrier, .pfnAppendMemoryCopy = zeCommandListAppendMemoryCopy,
      .pfnAppendMemoryFill = zeCommandListAppendMemoryFill,
      .pfnAppendLaunchKernel = zeCommandListAppendLaunchKernel)
TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t, .pfnCreate = zeEventPoolCreate,
      .pfnDestroy = zeEventPoolDestroy)
TABLE(zeGetEventProcAddrTable, ze_event_dditable_t, .pfnCreate = zeEventCreate, .pfnDestroy = zeEventDestroy,
      .pfnHostSignal = zeEventHostSignal, .pfnHostSynchronize = zeEventHostSynchronize,
      .pfnQueryStatus = zeEventQueryStatus, .pfnHostReset = zeEventHostReset,
      .pfnQueryKernelTimestamp = zeEventQueryKernelTimestamp)
TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t, .pfnCreate = zeModuleCreate,
      .pfnDestroy = zeModuleDestroy, .pfnGetNativeBinary = zeModuleGetNativeBinary)
TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t, .pfnDestroy = zeModuleBuildLogDestroy,
      .pfnGetString = zeModuleBuildLogGetString)
TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t, .pfnCreate = zeKernelCreate,
      .pfnDestroy = zeKernelDestroy, .pfnSetGroupSize = zeKernelSetGroupSize,
      .pfnSetArgumentValue = zeKernelSetArgumentValue)
TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t, .pfnAllocDevice = zeMemAllocDevice,
      .pfnAllocHost = zeMemAllocHost, .pfnAllocShared = zeMemAllocShared, .pfnFree = zeMemFree,
      .pfnGetAllocProperties = zeMemGetAllocProperties, .pfnGetAddressRange = zeMemGetAddressRange)

/* The loader wants all of them to exist. */
NO_TABLE(zeGetDeviceExpProcAddrTable, ze_device_exp_dditable_t)
NO_TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t)
NO_TABLE(zeGetImageProcAddrTable, ze_image_dditable_t)
NO_TABLE(zeGetImageExpProcAddrTable, ze_image_exp_dditable_t)
NO_TABLE(zeGetFenceProcAddrTable, ze_fence_dditable_t)
NO_TABLE(zeGetEventExpProcAddrTable, ze_event_exp_dditable_t)
NO_TABLE(zeGetKernelExpProcAddrTable, ze_kernel_exp_dditable_t)
NO_TABLE(zeGetSamplerProcAddrTable, ze_sampler_dditable_t)
NO_TABLE(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t)
NO_TABLE(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t)
NO_TABLE(zeGetFabricVertexExpProcAddrTable, ze_fabric_vertex_exp_dditable_t)
NO_TABLE(zeGetFabricEdgeExpProcAddrTable, ze_fabric_edge_exp_dditable_t)
NO_TABLE(zetGetDeviceProcAddrTable, zet_device_dditable_t)
NO_TABLE(zetGetContextProcAddrTable, zet_context_dditable_t)
NO_TABLE(zetGetCommandListProcAddrTable, zet_command_list_dditable_t)
NO_TABLE(zetGetModuleProcAddrTable, zet_module_dditable_t)
NO_TABLE(zetGetKernelProcAddrTable, zet_kernel_dditable_t)
NO_TABLE(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t)
NO_TABLE(zetGetMetricGroupExpProcAddrTable, zet_metric_group_exp_dditable_t)
NO_TABLE(zetGetMetricProcAddrTable, zet_metric_dditable_t)
NO_TABLE(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t)
NO_TABLE(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t)
NO_TABLE(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t)
NO_TABLE(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t)
NO_TABLE(zetGetDebugProcAddrTable, zet_debug_dditable_t)
NO_TABLE(zesGetDriverProcAddrTable, zes_driver_dditable_t)
TABLE(zesGetDeviceProcAddrTable, zes_device_dditable_t, .pfnEnumMemoryModules = zesDeviceEnumMemoryModules)
NO_TABLE(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t)
NO_TABLE(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t)
NO_TABLE(zesGetPowerProcAddrTable, zes_power_dditable_t)
NO_TABLE(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t)
NO_TABLE(zesGetEngineProcAddrTable, zes_engine_dditable_t)
NO_TABLE(zesGetStandbyProcAddrTable, zes_standby_dditable_t)
NO_TABLE(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t)
TABLE(zesGetMemoryProcAddrTable, zes_memory_dditable_t, .pfnGetProperties = zesMemoryGetProperties,
      .pfnGetState = zesMemoryGetState)
NO_TABLE(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t)
NO_TABLE(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t)
NO_TABLE(zesGetPsuProcAddrTable, zes_psu_dditable_t)
NO_TABLE(zesGetFanProcAddrTable, zes_fan_dditable_t)
NO_TABLE(zesGetLedProcAddrTable, zes_led_dditable_t)
NO_TABLE(zesGetRasProcAddrTable, zes_ras_dditable_t)
NO_TABLE(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t)
