/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan driver of the GPU family: any device with Vulkan 1.2 and the features below, found through the loader.
 * Statuses, devices, settings and the table of the driver; read it from the bottom.
 */
#include "vulkan.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOADER "libvulkan.so.1"
#define MOST   VULKAN_DEVICES

typedef struct vulkan_state {
    gpu_found found;
    vulkan_symbols vk;
    void *loader;
    VkInstance instance;
    VkPhysicalDevice devices[MOST];
    vulkan_settings settings;
} vulkan_state;

const vulkan_settings *vulkan_settings_of(gpu_plugin *plugin)
{
    return &((vulkan_state *)gpu_driver_state(plugin))->settings;
}

/* ---- Statuses --------------------------------------------------------------------------------------------- */

static const char *result_name(VkResult result)
{
    GPU_NAME_OF(result, VULKAN_RESULTS)
}

static int32_t status_of(VkResult result)
{
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
        return TN_E_OUT_OF_MEMORY;
    case VK_ERROR_DEVICE_LOST:
        return TN_E_DEVICE_LOST;
    default:
        return TN_E_INTERNAL;
    }
}

int32_t vulkan_check(vulkan_device *d, VkResult result, const char *what)
{
    if (result == VK_SUCCESS) return TN_OK;
    if (result == VK_ERROR_DEVICE_LOST) __atomic_store_n(&d->lost, result, __ATOMIC_RELEASE);
    return gpu_error_native(d->plugin, status_of(result), result, result_name(result), "%s failed: %s", what,
                            result_name(result));
}

int32_t vulkan_status(void *device)
{
    vulkan_device *d = device;
    VkResult lost = __atomic_load_n(&d->lost, __ATOMIC_ACQUIRE);
    if (lost == VK_SUCCESS) return TN_OK;
    return gpu_error_native(d->plugin, TN_E_DEVICE_LOST, lost, result_name(lost), "the device is lost: %s",
                            result_name(lost));
}

/* ---- What a device has ------------------------------------------------------------------------------------ */

typedef struct device_features {
    VkPhysicalDeviceVulkan12Features of_12;
    VkPhysicalDeviceVulkan11Features of_11;
    VkPhysicalDeviceFeatures2 all;
} device_features;

/* The features that kernels need: X(struct, member). */
#define NEEDED_FEATURES(X)             \
    X(all.features, shaderInt64)       \
    X(of_11, storageBuffer16BitAccess) \
    X(of_12, storageBuffer8BitAccess)  \
    X(of_12, bufferDeviceAddress)      \
    X(of_12, timelineSemaphore)        \
    X(of_12, uniformBufferStandardLayout)

static void chain(device_features *f)
{
    memset(f, 0, sizeof *f);
    f->of_12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    f->of_11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    f->of_11.pNext = &f->of_12;
    f->all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    f->all.pNext = &f->of_11;
}

int32_t vulkan_choose_family(const VkQueueFamilyProperties *families, uint32_t n)
{
    int32_t found = -1;
    for (uint32_t i = n; i-- > 0;) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
        int32_t is_best = !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) && families[i].timestampValidBits;
        int32_t has_best = found >= 0 && !(families[found].queueFlags & VK_QUEUE_GRAPHICS_BIT) &&
                           families[found].timestampValidBits;
        if (is_best || !has_best) found = (int32_t)i;
    }
    return found;
}

/* The family of queues, or -1, and the bits of its time stamps. */
static int32_t find_family(const vulkan_symbols *vk, VkPhysicalDevice id, uint32_t *out_bits)
{
    VkQueueFamilyProperties families[MOST];
    uint32_t n = MOST;
    vk->GetPhysicalDeviceQueueFamilyProperties(id, &n, families);
    int32_t found = vulkan_choose_family(families, n);
    if (found >= 0) *out_bits = families[found].timestampValidBits;
    return found;
}

/* The name of what a device lacks, or NULL. */
static const char *lacks(const vulkan_symbols *vk, VkPhysicalDevice id,
                         const VkPhysicalDeviceProperties *properties)
{
    device_features f;
    uint32_t bits;
    if (properties->apiVersion < VK_API_VERSION_1_2) return "Vulkan 1.2";
    if (find_family(vk, id, &bits) < 0) return "a queue that computes";
    chain(&f);
    vk->GetPhysicalDeviceFeatures2(id, &f.all);
#define CHECK(of, name) \
    if (!f.of.name) return #name;
    NEEDED_FEATURES(CHECK)
#undef CHECK
    return NULL;
}

static int32_t has_extension(const VkExtensionProperties *list, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(list[i].extensionName, name) == 0) return 1;
    return 0;
}

/* Of malloc; NULL and 0 if there is none. */
static VkExtensionProperties *extensions_of(const vulkan_symbols *vk, VkPhysicalDevice id,
                                            uint32_t *out_count)
{
    uint32_t n = 0;
    VkResult result = vk->EnumerateDeviceExtensionProperties(id, NULL, &n, NULL);
    VkExtensionProperties *list = result == VK_SUCCESS && n ? calloc(n, sizeof *list) : NULL;
    if (list && vk->EnumerateDeviceExtensionProperties(id, NULL, &n, list) != VK_SUCCESS) n = 0;
    *out_count = list ? n : 0;
    return list;
}

/* Implementations over another interface, such as MoltenVK, are listed only if they are asked for. */
#define PORTABILITY_ENUMERATION "VK_KHR_portability_enumeration"
#define PORTABILITY_SUBSET      "VK_KHR_portability_subset"

static VkResult create_instance(vulkan_state *s)
{
    static const char *const names[] = {PORTABILITY_ENUMERATION};
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .pApplicationName = "Tenon",
                                           .pEngineName = "Tenon",
                                           .apiVersion = VK_API_VERSION_1_2};
    uint32_t n = 0, version = 0;
    if (s->vk.EnumerateInstanceVersion(&version) != VK_SUCCESS || version < VK_API_VERSION_1_2)
        return VK_ERROR_INCOMPATIBLE_DRIVER;
    VkResult result = s->vk.EnumerateInstanceExtensionProperties(NULL, &n, NULL);
    VkExtensionProperties *list = result == VK_SUCCESS && n ? calloc(n, sizeof *list) : NULL;
    if (list) result = s->vk.EnumerateInstanceExtensionProperties(NULL, &n, list);
    int32_t is_portable = list && result == VK_SUCCESS && has_extension(list, n, PORTABILITY_ENUMERATION);
    free(list);
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .flags =
                                           is_portable ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0,
                                       .pApplicationInfo = &application,
                                       .enabledExtensionCount = is_portable ? 1 : 0,
                                       .ppEnabledExtensionNames = names};
    return s->vk.CreateInstance(&info, NULL, &s->instance);
}

static int32_t load(vulkan_state *s)
{
    s->loader = gpu_load(&s->found, LOADER, "the loader " LOADER " is not installed");
    if (!s->loader) return 0;
    PFN_vkGetInstanceProcAddr get;
    *(void **)(void *)&get = dlsym(s->loader, "vkGetInstanceProcAddr");
    if (!get) {
        snprintf(s->found.reason, sizeof s->found.reason, LOADER " has no vkGetInstanceProcAddr");
        return 0;
    }
#define LOAD(name)                                                           \
    s->vk.name = (PFN_vk##name)get(s->instance, "vk" #name);                 \
    if (!s->vk.name) {                                                       \
        snprintf(s->found.reason, sizeof s->found.reason,                    \
                 LOADER " has no vk" #name ": it is older than Vulkan 1.2"); \
        return 0;                                                            \
    }
    VULKAN_LOADER(LOAD)
    VkResult result = create_instance(s);
    if (result != VK_SUCCESS) {
        snprintf(s->found.reason, sizeof s->found.reason, LOADER " found no driver (ICD): %s",
                 result_name(result));
        return 0;
    }
    VULKAN_INSTANCE(LOAD)
#undef LOAD
    return 1;
}

void vulkan_processors_last(const vulkan_symbols *vk, VkPhysicalDevice *devices, uint32_t n)
{
    VkPhysicalDevice processors[VULKAN_DEVICES];
    uint32_t n_kept = 0, n_processors = 0;
    for (uint32_t i = 0; i < n; i++) {
        VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
        vk->GetPhysicalDeviceProperties2(devices[i], &p);
        if (p.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU)
            processors[n_processors++] = devices[i];
        else
            devices[n_kept++] = devices[i];
    }
    memcpy(devices + n_kept, processors, n_processors * sizeof *processors);
}

static void find_devices(vulkan_state *s)
{
    VkPhysicalDevice found[MOST];
    uint32_t n = MOST;
    size_t at = 0;
    VkResult result = s->vk.EnumeratePhysicalDevices(s->instance, &n, found);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) n = 0;
    vulkan_processors_last(&s->vk, found, n);
    for (uint32_t i = 0; i < n; i++) {
        VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
        s->vk.GetPhysicalDeviceProperties2(found[i], &p);
        const char *lacking = lacks(&s->vk, found[i], &p.properties);
        if (!lacking)
            s->devices[s->found.count++] = found[i];
        else if (at < sizeof s->found.reason)
            at += (size_t)snprintf(s->found.reason + at, sizeof s->found.reason - at, "%s%s lacks %s",
                                   at ? "; " : "", p.properties.deviceName, lacking);
    }
    if (!n) snprintf(s->found.reason, sizeof s->found.reason, LOADER " found no device");
}

static void find(void *state)
{
    vulkan_state *s = state;
    s->settings.low_watermark = s->settings.high_watermark = -1;
    if (load(s)) find_devices(s);
}

static void forget(void *state)
{
    vulkan_state *s = state;
    if (s->instance) s->vk.DestroyInstance(s->instance, NULL);
}

/* ---- Memory of a device ------------------------------------------------------------------------------------ */

/* The first type among those of `bits` with these properties, or -1. */
static int32_t find_type(const VkPhysicalDeviceMemoryProperties *m, uint32_t bits,
                         VkMemoryPropertyFlags wanted)
{
    for (uint32_t i = 0; i < m->memoryTypeCount; i++)
        if (bits >> i & 1 && (m->memoryTypes[i].propertyFlags & wanted) == wanted) return (int32_t)i;
    return -1;
}

#define HOST_SEES (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
#define IS_CACHED VK_MEMORY_PROPERTY_HOST_CACHED_BIT
#define IS_LOCAL  VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define ALL_TYPES UINT32_MAX /* without a device it is not known which of them buffers may lie in */

typedef struct memory_types {
    int32_t device, host; /* -1: there is none */
    uint32_t is_unified;
    uint64_t bytes, host_bytes; /* of their heaps */
} memory_types;

/* Memory is unified if the host reads the device's at full speed, through its cache. */
static memory_types find_types(const vulkan_symbols *vk, VkPhysicalDevice id, uint32_t bits)
{
    VkPhysicalDeviceMemoryProperties2 m = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    memory_types t = {0};
    vk->GetPhysicalDeviceMemoryProperties2(id, &m);
    const VkPhysicalDeviceMemoryProperties *of = &m.memoryProperties;
    int32_t both = find_type(of, bits, IS_LOCAL | HOST_SEES | IS_CACHED);
    int32_t local = find_type(of, bits, IS_LOCAL), host = find_type(of, bits, HOST_SEES | IS_CACHED);
    t.is_unified = both >= 0;
    t.device = both >= 0 ? both : local >= 0 ? local : find_type(of, bits, 0);
    t.host = host >= 0 ? host : find_type(of, bits, HOST_SEES);
    if (t.device >= 0) t.bytes = of->memoryHeaps[of->memoryTypes[t.device].heapIndex].size;
    if (t.host >= 0) t.host_bytes = of->memoryHeaps[of->memoryTypes[t.host].heapIndex].size;
    return t;
}

/* Buffers of one usage may lie in the same types, whatever their size. */
int32_t vulkan_choose_memory(vulkan_device *d)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = 4096, .usage = VULKAN_BUFFER_USAGE};
    VkMemoryRequirements needs;
    VkBuffer buffer;
    VkResult result = d->vk.CreateBuffer(d->device, &info, NULL, &buffer);
    if (result != VK_SUCCESS) return vulkan_check(d, result, "vkCreateBuffer");
    d->vk.GetBufferMemoryRequirements(d->device, buffer, &needs);
    d->vk.DestroyBuffer(d->device, buffer, NULL);
    memory_types types = find_types(&d->vk, d->physical, needs.memoryTypeBits);
    if (types.device < 0 || types.host < 0)
        return gpu_error(d->plugin, TN_E_UNSUPPORTED,
                         "the device has no memory for buffers that the host sees");
    d->device_memory = (uint32_t)types.device;
    d->host_memory = (uint32_t)types.host;
    d->sees_memory = types.is_unified;
    d->memory_bytes = types.bytes;
    d->host_bytes = types.host_bytes;
    return TN_OK;
}

int32_t vulkan_budget(const vulkan_device *d, uint32_t type, uint64_t *out_used, uint64_t *out_budget)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 m = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                           .pNext = &budget};
    if (!d->has_budget) return TN_E_UNSUPPORTED;
    d->vk.GetPhysicalDeviceMemoryProperties2(d->physical, &m);
    uint32_t heap = m.memoryProperties.memoryTypes[type].heapIndex;
    *out_used = budget.heapUsage[heap];
    *out_budget = budget.heapBudget[heap];
    return TN_OK;
}

/* The most bytes of an allocation and of a buffer. Vulkan does not define what larger ones do. */
static uint64_t largest_of(const vulkan_symbols *vk, VkPhysicalDevice id)
{
    VkPhysicalDeviceMaintenance4Properties of_buffers = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES};
    VkPhysicalDeviceVulkan11Properties limits = {.sType =
                                                     VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &limits};
    uint32_t n = 0;
    VkExtensionProperties *list = extensions_of(vk, id, &n);
    if (has_extension(list, n, VK_KHR_MAINTENANCE_4_EXTENSION_NAME)) limits.pNext = &of_buffers;
    free(list);
    vk->GetPhysicalDeviceProperties2(id, &p);
    return of_buffers.maxBufferSize && of_buffers.maxBufferSize < limits.maxMemoryAllocationSize
               ? of_buffers.maxBufferSize
               : limits.maxMemoryAllocationSize;
}

void vulkan_describe_more(const vulkan_symbols *vk, VkPhysicalDevice id, gpu_properties *out)
{
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
    VkPhysicalDeviceShaderCorePropertiesAMD amd = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nv = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM arm = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    uint32_t n = 0;
    VkExtensionProperties *list = extensions_of(vk, id, &n);
    int32_t has_pci = has_extension(list, n, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
    if (has_pci) p.pNext = &pci;
    if (has_extension(list, n, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) {
        amd.pNext = p.pNext;
        p.pNext = &amd;
    }
    if (has_extension(list, n, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
        nv.pNext = p.pNext;
        p.pNext = &nv;
    }
    if (has_extension(list, n, VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME)) {
        arm.pNext = p.pNext;
        p.pNext = &arm;
    }
    free(list);
    if (p.pNext) vk->GetPhysicalDeviceProperties2(id, &p);
    if (has_pci) gpu_write_pci(out, pci.pciDomain, pci.pciBus, pci.pciDevice, pci.pciFunction);
    uint32_t units = nv.shaderSMCount + arm.shaderCoreCount +
                     amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray;
    if (units) out->compute_units = units;
    /* A guess that keeps usual devices busy: 0 would be taken for one unit. */
    if (!out->compute_units) out->compute_units = out->device_class == TN_DEVICE_INTEGRATED ? 16 : 32;
}

static void describe(gpu_plugin *plugin, uint32_t index, gpu_properties *out)
{
    const vulkan_state *s = gpu_driver_state(plugin);
    VkPhysicalDeviceVulkan12Properties driver = {.sType =
                                                     VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceVulkan11Properties limits = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &driver};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &limits};
    s->vk.GetPhysicalDeviceProperties2(s->devices[index], &p);
    const VkPhysicalDeviceProperties *of = &p.properties;
    memory_types types = find_types(&s->vk, s->devices[index], ALL_TYPES);
    uint64_t largest = largest_of(&s->vk, s->devices[index]);
    *out = (gpu_properties){.memory_bytes = types.bytes,
                            .largest_allocation = largest < types.bytes ? largest : types.bytes,
                            .alignment = 256,
                            .lacks_attention = 1}; /* GLSL has no pointers into memory of a group */
    if (of->deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU)
        out->compute_units = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    out->device_class = of->deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ? TN_DEVICE_INTEGRATED
                        : of->deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? TN_DEVICE_DISCRETE
                                                                                 : TN_DEVICE_VIRTUAL;
    snprintf(out->name, sizeof out->name, "%.63s", of->deviceName);
    snprintf(out->architecture, sizeof out->architecture, "Vulkan %u.%u",
             VK_API_VERSION_MAJOR(of->apiVersion), VK_API_VERSION_MINOR(of->apiVersion));
    snprintf(out->identity, sizeof out->identity, "%.63s|%08x:%08x|%.63s|%.63s", of->deviceName, of->vendorID,
             of->driverVersion, driver.driverName, driver.driverInfo);
    memcpy(out->uuid, limits.deviceUUID, sizeof out->uuid);
    vulkan_describe_more(&s->vk, s->devices[index], out);
}

/* ---- Devices ----------------------------------------------------------------------------------------------- */

static VkResult create_device(const vulkan_state *s, vulkan_device *d)
{
    static const char *const names[] = {PORTABILITY_SUBSET};
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = d->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    device_features f;
    uint32_t n = 0;
    VkExtensionProperties *list = extensions_of(&d->vk, d->physical, &n);
    uint32_t is_portable = (uint32_t)has_extension(list, n, PORTABILITY_SUBSET);
    free(list);
    chain(&f);
#define ENABLE(of, name) f.of.name = VK_TRUE;
    NEEDED_FEATURES(ENABLE)
#undef ENABLE
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &f.all,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = is_portable,
                                     .ppEnabledExtensionNames = names};
    return d->vk.CreateDevice(d->physical, &info, NULL, &d->device);
}

static int32_t load_device(vulkan_device *d)
{
#define LOAD(name)                                                             \
    d->vk.name = (PFN_vk##name)d->vk.GetDeviceProcAddr(d->device, "vk" #name); \
    if (!d->vk.name) return gpu_error(d->plugin, TN_E_UNSUPPORTED, "the driver has no vk" #name);
    VULKAN_DEVICE(LOAD)
#undef LOAD
    return TN_OK;
}

static void destroy(vulkan_device *d)
{
    pthread_mutex_destroy(&d->staging_lock);
    pthread_cond_destroy(&d->idle);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

/* The limits of launches and allocations. The kernels have no floats of other widths, so modes of float32 need not match
 * theirs. */
void vulkan_read_limits(vulkan_device *d)
{
    VkPhysicalDeviceVulkan12Properties of_12 = {.sType =
                                                    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &of_12};
    const VkPhysicalDeviceLimits *limits = &p.properties.limits;
    uint32_t n = 0;
    VkExtensionProperties *list = extensions_of(&d->vk, d->physical, &n);
    d->has_budget = (uint32_t)has_extension(list, n, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    free(list);
    d->vk.GetPhysicalDeviceProperties2(d->physical, &p);
    d->nanoseconds = (double)limits->timestampPeriod;
    d->uniform_alignment = (uint32_t)limits->minUniformBufferOffsetAlignment;
    if (d->uniform_alignment < 16) d->uniform_alignment = 16;
    d->shared_bytes = limits->maxComputeSharedMemorySize;
    d->largest_bytes = largest_of(&d->vk, d->physical);
    d->float_modes = (of_12.shaderSignedZeroInfNanPreserveFloat32 ? VULKAN_KEEPS_SPECIALS : 0) |
                     (of_12.shaderDenormPreserveFloat32 ? VULKAN_KEEPS_DENORMALS : 0) |
                     (of_12.shaderRoundingModeRTEFloat32 ? VULKAN_ROUNDS_TO_EVEN : 0);
}

static int32_t open_device(gpu_plugin *plugin, uint32_t index, void **out_device)
{
    const vulkan_state *s = gpu_driver_state(plugin);
    vulkan_device *d = calloc(1, sizeof *d);
    if (!d) return gpu_error(plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    *d = (vulkan_device){.plugin = plugin, .vk = s->vk, .physical = s->devices[index], .index = index};
    d->family = (uint32_t)find_family(&d->vk, d->physical, &d->stamp_bits);
    vulkan_read_limits(d);
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->staging_lock, NULL);
    pthread_cond_init(&d->idle, NULL);
    VkResult result = create_device(s, d);
    if (result != VK_SUCCESS) {
        int32_t failed = vulkan_check(d, result, "vkCreateDevice");
        destroy(d);
        return failed;
    }
    int32_t status = load_device(d);
    if (!status) status = vulkan_choose_memory(d);
    if (!status) {
        d->vk.GetDeviceQueue(d->device, d->family, 0, &d->queue);
        status = vulkan_programs_init(d);
    }
    if (status) {
        PFN_vkDestroyDevice destroy_device =
            (PFN_vkDestroyDevice)d->vk.GetDeviceProcAddr(d->device, "vkDestroyDevice");
        if (destroy_device) destroy_device(d->device, NULL);
        destroy(d);
        return status;
    }
    *out_device = d;
    return TN_OK;
}

static void close_device(void *device)
{
    vulkan_device *d = device;
    pthread_mutex_lock(&d->lock);
    while (d->callbacks) pthread_cond_wait(&d->idle, &d->lock);
    pthread_mutex_unlock(&d->lock);
    d->vk.DeviceWaitIdle(d->device);
    vulkan_programs_finish(d);
    vulkan_queues_finish(d);
    vulkan_memory_destroy(d, d->staging);
    for (vulkan_memory *m = d->garbage, *next; m; m = next) {
        next = m->next;
        vulkan_memory_destroy(d, m);
    }
    d->vk.DestroyDevice(d->device, NULL);
    destroy(d);
}

/* Handles that are pointers, and buffers, which Vulkan's headers make numbers on some machines. */
static int32_t native(void *device, uint32_t kind, void *handle, uint64_t *out)
{
    vulkan_device *d = device;
    int32_t status;
    switch (kind) {
    case TN_NATIVE_DEVICE:
        *out = (uintptr_t)d->physical;
        return TN_OK;
    case TN_NATIVE_CONTEXT:
        *out = (uintptr_t)d->device;
        return TN_OK;
    case TN_NATIVE_STREAM: /* what comes behind, on this queue, finds all work of the stream submitted */
        pthread_mutex_lock(&d->lock);
        status = vulkan_commit(handle);
        ((vulkan_queue *)handle)->is_shared = 1;
        pthread_mutex_unlock(&d->lock);
        if (!status) *out = (uintptr_t)d->queue;
        return status;
    case TN_NATIVE_ALLOCATION:
        *out = (uint64_t)((const vulkan_memory *)handle)->buffer;
        return TN_OK;
    default:
        return TN_E_UNSUPPORTED;
    }
}

/* ---- Settings ---------------------------------------------------------------------------------------------- */

enum { FAST_MATH, STAGING, LOW_WATERMARK, HIGH_WATERMARK, SETTINGS };

/* In thousandths of the device's memory, as Metal's allocator of PyTorch has them. Drivers may give memory that is not there, and
 * lose the device when it is used: without a budget some of a GPU's own memory is left to others. */
static int32_t default_ratio(const vulkan_device *d, uint32_t i)
{
    if (i == HIGH_WATERMARK) return d->sees_memory || d->has_budget ? 1700 : 900;
    return d->sees_memory ? 1400 : 1000;
}

static int32_t *setting(gpu_plugin *plugin, uint32_t i)
{
    vulkan_settings *s = &((vulkan_state *)gpu_driver_state(plugin))->settings;
    int32_t *const of[SETTINGS] = {&s->fast_math, &s->staging, &s->low_watermark, &s->high_watermark};
    return of[i];
}

uint64_t vulkan_watermark(const vulkan_device *d, int32_t is_high)
{
    uint32_t i = is_high ? HIGH_WATERMARK : LOW_WATERMARK;
    int32_t ratio = __atomic_load_n(setting(d->plugin, i), __ATOMIC_RELAXED);
    return d->memory_bytes / 1000 * (uint64_t)(ratio < 0 ? default_ratio(d, i) : ratio);
}

static int32_t describe_setting(void *self, void *device, uint32_t i, tn_setting *out)
{
    static const char *const texts[SETTINGS][2] = {
        {"fast_math", "kernels may fuse and reorder operations of float32"},
        {"staging", "copies use a staging buffer also where the host sees the memory of the device"},
        {"low_watermark_ratio", "part of the memory above which freed memory is given back early; 0: never"},
        {"high_watermark_ratio", "part of the memory above which nothing is allocated; 0: no limit"}};
    if (i >= SETTINGS) return TN_E_INDEX;
    out->name = texts[i][0];
    out->meaning = texts[i][1];
    out->default_value = tn_value_bool(0);
    if (i < LOW_WATERMARK) return TN_OK;
    out->default_value = tn_value_float(default_ratio(((gpu_device *)device)->handle, i) / 1000.0);
    out->minimum = tn_value_float(0);
    out->maximum = tn_value_float(1000);
    return TN_OK;
}

static int32_t get_setting(void *self, void *device, uint32_t i, tn_value *out)
{
    int32_t value = __atomic_load_n(setting(self, i), __ATOMIC_RELAXED);
    if (value < 0) value = default_ratio(((gpu_device *)device)->handle, i);
    *out = i < LOW_WATERMARK ? tn_value_bool(value) : tn_value_float(value / 1000.0);
    return TN_OK;
}

static int32_t set_setting(void *self, void *device, uint32_t i, const tn_value *value)
{
    int32_t number = i < LOW_WATERMARK ? (int32_t)value->as.i : (int32_t)(value->as.f * 1000 + 0.5);
    __atomic_store_n(setting(self, i), number, __ATOMIC_RELAXED);
    return TN_OK;
}

static const tn_settings_interface settings =
    TN_INTERFACE(tn_settings_interface, .describe = describe_setting, .get = get_setting, .set = set_setting);

/* ---- The driver -------------------------------------------------------------------------------------------- */

GPU_DEFINE_DRIVER("vulkan",
                  /* Devices */
                  .settings = &settings, .dlpack_type = 7, .state_bytes = sizeof(vulkan_state), .find = find,
                  .forget = forget, .describe = describe, .open = open_device, .close = close_device,
                  .status = vulkan_status, .native = native,
                  /* Memory */
                  .memory_info = vulkan_memory_info, .memory_of = vulkan_memory_of, .alloc = vulkan_alloc,
                  .free = vulkan_free, .retain = vulkan_retain, .host_alloc = vulkan_host_alloc,
                  .host_free = vulkan_host_free,
                  /* Queues */
                  .queue_create = vulkan_queue_create, .queue_destroy = vulkan_queue_destroy,
                  .queue_query = vulkan_queue_query, .queue_finish = vulkan_queue_finish,
                  .queue_wait = vulkan_queue_wait, .native_wait = vulkan_native_wait,
                  .queue_callback = vulkan_queue_callback,
                  /* Events */
                  .event_record = vulkan_event_record, .event_release = vulkan_event_release,
                  .event_query = vulkan_event_query, .event_wait = vulkan_event_wait,
                  .event_elapsed = vulkan_event_elapsed,
                  /* Copies */
                  .write = vulkan_write, .read = vulkan_read, .copy = vulkan_copy, .fill = vulkan_fill,
                  /* Programs */
                  .program_create = vulkan_program_create, .program_destroy = vulkan_program_destroy,
                  .kernel_create = vulkan_kernel_create, .kernel_destroy = vulkan_kernel_destroy,
                  .launch = vulkan_launch);
