/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels and launches. Programs are in the plugin as SPIR-V: a file, its GPU_TYPE and GPU_GROUP. What else the family
 * would tell a compiler, a pipeline is specialised by: GPU_DTYPE, GPU_SPLAT, the size of a group, and the opcode and
 * the dtypes of the nest that a launch gives. So a pipeline has the code of one operator. Pipelines are kept; their cache
 * goes where other plugins keep compiled programs.
 */
#include "vulkan.h"
#include "device/transform.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct vulkan_program {
    const char *file;
    uint32_t type, group, is_dense, dtype, splat;
} vulkan_program;

/* The constants of a shader, by their numbers in tools/gen_shaders.py. */
typedef struct vulkan_constants {
    uint32_t group, opcode, dtypes[GPU_OPERANDS], dtype, splat;
} vulkan_constants;
#define CONSTANTS 8u

typedef struct vulkan_pipeline {
    struct vulkan_pipeline *next;
    vulkan_constants constants;
    int32_t is_fast;
    VkPipeline pipeline;
} vulkan_pipeline;

typedef struct vulkan_kernel {
    const vulkan_module *module;
    const vulkan_program *program;
    vulkan_pipeline *pipelines;
} vulkan_kernel;

/* Structs are known by their sizes among the arguments. */
_Static_assert(sizeof(gpu_nest) != sizeof(gpu_window) && sizeof(gpu_nest) != sizeof(gpu_channels) &&
                   sizeof(gpu_nest) != sizeof(gpu_step) && sizeof(gpu_nest) != sizeof(gpu_fft) &&
                   sizeof(gpu_window) != sizeof(gpu_channels) && sizeof(gpu_window) != sizeof(gpu_fft) &&
                   sizeof(gpu_channels) != sizeof(gpu_fft),
               "two structs have one size");
_Static_assert(sizeof(vulkan_constants) == CONSTANTS * 4, "constants have gaps");

/* ---- Programs ---------------------------------------------------------------------------------------------- */

static uint32_t option(const char *options, const char *name)
{
    const char *at = strstr(options, name);
    return at ? (uint32_t)strtoul(at + strlen(name), NULL, 10) : 0;
}

int32_t vulkan_program_create(void *device, const char *source, const char *options, const gpu_binary *binary,
                              void **out_program, gpu_binary *out_binary)
{
    vulkan_device *d = device;
    vulkan_program *p = malloc(sizeof *p);
    if (!p) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    *p = (vulkan_program){.file = source,
                          .type = option(options, "-DGPU_TYPE="),
                          .group = option(options, "-DGPU_GROUP="),
                          .is_dense = strstr(options, "-DGPU_OPCODE=") != NULL,
                          .dtype = option(options, "-DGPU_DTYPE="),
                          .splat = option(options, "-DGPU_SPLAT=")};
    *out_program = p;
    return TN_OK;
}

void vulkan_program_destroy(void *device, void *program)
{
    free(program);
}

int32_t vulkan_kernel_create(void *device, void *program, const char *name, void **out_kernel)
{
    vulkan_device *d = device;
    const vulkan_program *p = program;
    const vulkan_module *m = vulkan_modules, *end = m + vulkan_n_modules;
    while (m < end && (strcmp(m->kernel, name) != 0 || strcmp(m->file, p->file) != 0 || m->type != p->type ||
                       m->group != p->group || m->is_dense != p->is_dense))
        m++;
    if (m == end)
        return gpu_error(d->plugin, TN_E_INTERNAL, "there is no kernel %s of %s for type %u and group %u",
                         name, p->file, p->type, p->group);
    if (m->shared_bytes > d->shared_bytes)
        return gpu_error(d->plugin, TN_E_UNSUPPORTED,
                         "%s needs %u bytes of memory that a group shares, and the device has %u", name,
                         m->shared_bytes, d->shared_bytes);
    vulkan_kernel *k = calloc(1, sizeof *k);
    if (!k) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    k->module = m;
    k->program = p;
    *out_kernel = k;
    return TN_OK;
}

/* The host destroys kernels when it has waited for all work. */
void vulkan_kernel_destroy(void *device, void *kernel)
{
    vulkan_device *d = device;
    vulkan_kernel *k = kernel;
    for (vulkan_pipeline *p = k->pipelines, *next; p; p = next) {
        next = p->next;
        d->vk.DestroyPipeline(d->device, p->pipeline, NULL);
        free(p);
    }
    free(k);
}

/* ---- The cache of pipelines -------------------------------------------------------------------------------- */

#define CACHE_NAME "pipelines"

static void cache_key(const vulkan_device *d, char *out, size_t bytes)
{
    gpu_properties properties;
    gpu_the_driver.describe(d->plugin, d->index, &properties);
    snprintf(out, bytes, "%s\n%s", properties.identity, CACHE_NAME);
}

static const char *cache_folder(const vulkan_device *d)
{
    return __atomic_load_n(&d->plugin->no_cache, __ATOMIC_RELAXED) ? "" : d->plugin->cache_folder;
}

/* Vulkan checks what it gets: data of another driver give an empty cache. */
static void cache_open(vulkan_device *d)
{
    char key[640];
    gpu_binary found = {0};
    cache_key(d, key, sizeof key);
    gpu_cache_read(cache_folder(d), key, CACHE_NAME, &found);
    const VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                            .initialDataSize = found.bytes ? found.size : 0,
                                            .pInitialData = found.bytes};
    if (d->vk.CreatePipelineCache(d->device, &info, NULL, &d->cache) != VK_SUCCESS) d->cache = VK_NULL_HANDLE;
    d->cached_bytes = found.bytes ? found.size : 0;
    d->has_cache = 1;
    free(found.bytes);
}

static void cache_close(vulkan_device *d)
{
    char key[640];
    size_t size = 0;
    if (!d->cache) return;
    cache_key(d, key, sizeof key);
    if (d->vk.GetPipelineCacheData(d->device, d->cache, &size, NULL) == VK_SUCCESS &&
        size > d->cached_bytes) {
        gpu_binary made = {malloc(size), size};
        if (made.bytes &&
            d->vk.GetPipelineCacheData(d->device, d->cache, &made.size, made.bytes) == VK_SUCCESS)
            gpu_cache_write(cache_folder(d), key, CACHE_NAME, &made);
        free(made.bytes);
    }
    d->vk.DestroyPipelineCache(d->device, d->cache, NULL);
}

/* ---- Pipelines --------------------------------------------------------------------------------------------- */

static VkResult make_pipeline(vulkan_device *d, const vulkan_module *m, vulkan_pipeline *p)
{
    VkSpecializationMapEntry entries[CONSTANTS];
    uint32_t n_words = 0, *words = vulkan_shader_words(d, m, p->is_fast, &n_words);
    VkShaderModule shader;
    if (!words) return VK_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < CONSTANTS; i++) entries[i] = (VkSpecializationMapEntry){i, i * 4, 4};
    const VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = n_words * sizeof *words,
                                           .pCode = words};
    const VkSpecializationInfo constants = {CONSTANTS, entries, sizeof p->constants, &p->constants};
    VkResult result = d->vk.CreateShaderModule(d->device, &code, NULL, &shader);
    free(words);
    if (result != VK_SUCCESS) return result;
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = shader,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = d->layout};
    result = d->vk.CreateComputePipelines(d->device, d->cache, 1, &info, NULL, &p->pipeline);
    d->vk.DestroyShaderModule(d->device, shader, NULL);
    return result;
}

static int32_t find_pipeline(vulkan_device *d, vulkan_kernel *k, const vulkan_constants *constants,
                             VkPipeline *out_pipeline)
{
    int32_t is_fast = __atomic_load_n(&vulkan_settings_of(d->plugin)->fast_math, __ATOMIC_RELAXED);
    vulkan_pipeline *p = k->pipelines;
    while (p && (p->is_fast != is_fast || memcmp(&p->constants, constants, sizeof *constants) != 0))
        p = p->next;
    if (!p) {
        if (!d->has_cache) cache_open(d);
        p = calloc(1, sizeof *p);
        if (!p) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
        p->constants = *constants;
        p->is_fast = is_fast;
        VkResult result = make_pipeline(d, k->module, p);
        if (result != VK_SUCCESS) {
            free(p);
            return vulkan_check(d, result, k->module->kernel);
        }
        p->next = k->pipelines;
        k->pipelines = p;
    }
    *out_pipeline = p->pipeline;
    return TN_OK;
}

/* ---- Launches ---------------------------------------------------------------------------------------------- */

static vulkan_constants constants_of(const vulkan_kernel *k, const gpu_argument *arguments,
                                     uint32_t n_arguments, uint32_t group)
{
    vulkan_constants c = {.group = group, .dtype = k->program->dtype, .splat = k->program->splat};
    for (uint32_t i = 0; i < n_arguments; i++) {
        const gpu_nest *nest = arguments[i].value;
        if (arguments[i].is_memory || arguments[i].bytes != sizeof *nest) continue;
        if (k->module->constants & 1) c.opcode = nest->opcode;
        for (uint32_t j = 0; j < GPU_OPERANDS; j++)
            if (k->module->constants >> (j + 1) & 1) c.dtypes[j] = nest->dtypes[j];
    }
    return c;
}

/* Writes the uniform block of a kernel: the number of groups and a 0, then the arguments, each at a multiple of its alignment. */
static uint32_t write_arguments(uint8_t *out, const gpu_argument *arguments, uint32_t n_arguments,
                                uint32_t groups)
{
    const uint32_t first[2] = {groups, 0};
    uint32_t at = sizeof first;
    if (out) memcpy(out, first, sizeof first);
    for (uint32_t i = 0; i < n_arguments; i++) {
        const gpu_argument *a = &arguments[i];
        const vulkan_memory *memory = a->is_memory ? a->value : NULL;
        uint64_t address = memory ? memory->address : 0;
        uint32_t bytes = a->is_memory ? 8 : a->bytes, alignment = bytes % 8 ? 4 : 8;
        at = (at + alignment - 1) / alignment * alignment;
        if (out) memcpy(out + at, a->is_memory ? (const void *)&address : a->value, bytes);
        at += bytes;
    }
    return at;
}

/* So many items keep a small GPU busy. With fewer each turn of a loop takes as long as with so many. */
#define BUSY_ITEMS 4096

/* The turns of a launch's inner loops, from what its arguments say. Only the order of magnitude counts. */
static double work_of(const vulkan_kernel *k, const gpu_argument *arguments, uint32_t n_arguments,
                      double items)
{
    double work = items, more = 0;
    for (uint32_t i = 0; i < n_arguments; i++) {
        if (arguments[i].is_memory) continue;
        if (arguments[i].bytes == sizeof(gpu_nest)) {
            const gpu_nest *nest = arguments[i].value;
            more = nest->numel;
            if (strstr(k->module->kernel, "product")) more *= (double)nest->scalars[0];      /* the depth */
            if (strcmp(k->module->file, "product.cl") == 0) more *= (double)nest->values[0]; /* its parts */
        } else if (arguments[i].bytes == sizeof(gpu_window)) {
            const gpu_window *w = arguments[i].value;
            more = (double)w->images * w->groups * w->in_channels * w->out_channels;
            for (int j = 0; j < 3; j++) more *= (double)w->out[j] * w->kernel_size[j];
        } else if (arguments[i].bytes == sizeof(gpu_channels)) {
            const gpu_channels *c = arguments[i].value;
            more = (double)c->images * c->channels * c->inner;
        } else if (arguments[i].bytes == sizeof(gpu_fft)) {
            const gpu_fft *f = arguments[i].value;
            more = (double)f->transforms * f->points * f->rounds * f->n_radices * 8;
        }
        if (items < BUSY_ITEMS) more *= BUSY_ITEMS / items;
        if (more > work) work = more;
    }
    return work;
}

/* With the lock held. A dimension has at most 65,535 groups. */
static int32_t encode_launch(vulkan_queue *q, vulkan_kernel *k, const gpu_argument *arguments,
                             uint32_t n_arguments, uint32_t groups, uint32_t group)
{
    const uint32_t most = 65535;
    vulkan_device *d = q->device;
    vulkan_constants constants = constants_of(k, arguments, n_arguments, group);
    uint32_t bytes = write_arguments(NULL, arguments, n_arguments, groups), offset;
    uint32_t x = groups < most ? groups : most, rows = (groups + x - 1) / x, y = rows < most ? rows : most;
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkCommandBuffer commands;
    VkDescriptorSet set;
    uint8_t *to;
    if (bytes > VULKAN_ARGUMENT_BYTES)
        return gpu_error(d->plugin, TN_E_INTERNAL, "%s has %u bytes of arguments", k->module->kernel, bytes);
    int32_t status = find_pipeline(d, k, &constants, &pipeline);
    if (!status) status = vulkan_begin(q, &commands);
    if (!status) status = vulkan_arguments(q, bytes, &set, &offset, &to);
    if (status) return status;
    write_arguments(to, arguments, n_arguments, groups);
    d->vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    d->vk.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, d->layout, 0, 1, &set, 1, &offset);
    d->vk.CmdDispatch(commands, x, y, (rows + y - 1) / y);
    return vulkan_end(q, work_of(k, arguments, n_arguments, (double)groups * group));
}

int32_t vulkan_launch(void *device, void *queue, void *kernel, const gpu_argument *arguments,
                      uint32_t n_arguments, uint64_t items, uint32_t group)
{
    vulkan_device *d = device;
    if (items > UINT32_MAX)
        return gpu_error(d->plugin, TN_E_UNSUPPORTED,
                         "a launch has %llu items, and at most 2^32 - 1 are possible",
                         (unsigned long long)items);
    pthread_mutex_lock(&d->lock);
    int32_t status = encode_launch(queue, kernel, arguments, n_arguments, (uint32_t)(items / group), group);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* ---- Fill -------------------------------------------------------------------------------------------------- */

/* The pattern as a word that is repeated, if it is one. */
static int32_t is_word(const void *pattern, uint32_t pattern_bytes, uint32_t *out)
{
    uint8_t bytes[16];
    for (uint32_t i = 0; i < 16; i++) bytes[i] = ((const uint8_t *)pattern)[i % pattern_bytes];
    memcpy(out, bytes, sizeof *out);
    return memcmp(bytes, bytes + 4, 12) == 0;
}

/* What Vulkan cannot fill, the kernel of the family does: patterns of several words, and places between words. */
static int32_t fill_by_kernel(vulkan_device *d, vulkan_queue *q, vulkan_memory *m, uint64_t offset,
                              uint64_t bytes, const void *pattern, uint32_t pattern_bytes)
{
    const uint64_t most = 1u << 30;
    int32_t status = TN_OK;
    if (!d->fill_kernel) {
        status = vulkan_program_create(d, "memory.cl", "", NULL, &d->fill_program, NULL);
        if (!status) status = vulkan_kernel_create(d, d->fill_program, "fill", &d->fill_kernel);
    }
    for (uint64_t done = 0, n = bytes / pattern_bytes; done < n && !status; done += most) {
        uint32_t part = (uint32_t)(n - done < most ? n - done : most);
        gpu_nest nest = {.numel = part, .rank = 1, .opcode = pattern_bytes};
        nest.sizes[0] = part;
        nest.strides[0][0] = pattern_bytes;
        nest.offsets[0] = (int64_t)(offset + done * pattern_bytes);
        memcpy(nest.values, pattern, pattern_bytes);
        const gpu_argument arguments[] = {{.is_memory = 1, .value = m},
                                          {.bytes = sizeof nest, .value = &nest}};
        status = encode_launch(q, d->fill_kernel, arguments, 2,
                               (part + GPU_GROUP_ITEMS - 1) / GPU_GROUP_ITEMS, GPU_GROUP_ITEMS);
    }
    return status;
}

int32_t vulkan_fill(void *device, void *queue, void *memory, uint64_t offset, uint64_t bytes,
                    const void *pattern, uint32_t pattern_bytes)
{
    vulkan_device *d = device;
    vulkan_queue *q = queue;
    vulkan_memory *m = memory;
    VkCommandBuffer commands;
    uint32_t word;
    int32_t status;
    if (!bytes) return TN_OK;
    pthread_mutex_lock(&d->lock);
    if (offset % 4 || bytes % 4 || !is_word(pattern, pattern_bytes, &word)) {
        status = fill_by_kernel(d, q, m, offset, bytes, pattern, pattern_bytes);
    } else {
        status = vulkan_begin(q, &commands);
        if (!status) d->vk.CmdFillBuffer(commands, m->buffer, offset, bytes, word);
        if (!status) status = vulkan_end(q, (double)bytes / 4);
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* ---- With the device --------------------------------------------------------------------------------------- */

int32_t vulkan_programs_init(vulkan_device *d)
{
    const VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC,
                                                  .descriptorCount = 1,
                                                  .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    const VkDescriptorSetLayoutCreateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                 .bindingCount = 1,
                                                 .pBindings = &binding};
    const VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .setLayoutCount = 1,
                                               .pSetLayouts = &d->set_layout};
    VkResult result = d->vk.CreateDescriptorSetLayout(d->device, &set, NULL, &d->set_layout);
    if (result == VK_SUCCESS) result = d->vk.CreatePipelineLayout(d->device, &layout, NULL, &d->layout);
    return vulkan_check(d, result, "vkCreatePipelineLayout");
}

void vulkan_programs_finish(vulkan_device *d)
{
    if (d->fill_kernel) vulkan_kernel_destroy(d, d->fill_kernel);
    vulkan_program_destroy(d, d->fill_program);
    cache_close(d);
    d->vk.DestroyPipelineLayout(d->device, d->layout, NULL);
    d->vk.DestroyDescriptorSetLayout(d->device, d->set_layout, NULL);
}
