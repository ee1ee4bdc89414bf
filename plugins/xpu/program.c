/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and launches of the Level Zero driver. Device code was compiled to SPIR-V with the plugin; the driver compiles
 * it for its device.
 */
#include "modules.h"
#include "xpu.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_LOG 3500
/* What ends the options of modules that have no double: the option with which tools/gen_spirv.py compiles them. */
#define XPU_WITHOUT_DOUBLE " -cl-ext=-cl_khr_fp64"

static int32_t build_error(xpu_device *d, ze_result_t result, ze_module_build_log_handle_t log)
{
    size_t size = 0;
    char *text = NULL;
    if (log && d->ze->zeModuleBuildLogGetString(log, &size, NULL) == ZE_RESULT_SUCCESS && size)
        text = malloc(size + 1);
    if (text && d->ze->zeModuleBuildLogGetString(log, &size, text) != ZE_RESULT_SUCCESS) size = 0;
    if (text) text[size] = 0;
    int32_t status = xpu_check(d, result, "zeModuleCreate");
    if (status == TN_E_INTERNAL)
        status = gpu_error_native(d->plugin, status, (int32_t)result, xpu_result_name(result),
                                  "the device code does not compile: %s\n%.*s", xpu_result_name(result),
                                  MOST_LOG, text ? text : "(no log)");
    free(text);
    return status;
}

static void get_binary(xpu_device *d, ze_module_handle_t module, gpu_binary *out)
{
    size_t size = 0;
    if (d->ze->zeModuleGetNativeBinary(module, &size, NULL) != ZE_RESULT_SUCCESS || !size) return;
    uint8_t *bytes = malloc(size);
    if (bytes && d->ze->zeModuleGetNativeBinary(module, &size, bytes) == ZE_RESULT_SUCCESS)
        *out = (gpu_binary){bytes, size};
    else
        free(bytes);
}

/* Modules that only convert from and to float64 have a form without, since compilers for devices that lack float64 refuse every
 * instruction on it. */
static const gpu_module *module_of(const xpu_device *d, const char *source, const char *options)
{
    char words[512];
    snprintf(words, sizeof words, "%s%s", options, d->has_double ? "" : XPU_WITHOUT_DOUBLE);
    return gpu_module_find(source, words);
}

int32_t xpu_program_create(void *device, const char *source, const char *options, const gpu_binary *binary,
                           void **out_program, gpu_binary *out_binary)
{
    xpu_device *d = device;
    const gpu_module *compiled = module_of(d, source, options);
    if (!compiled) return gpu_error(d->plugin, TN_E_INTERNAL, "there is no device code for '%s'", options);
    const ze_module_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
        .format = binary ? ZE_MODULE_FORMAT_NATIVE : ZE_MODULE_FORMAT_IL_SPIRV,
        .inputSize = binary ? binary->size : compiled->size,
        .pInputModule = binary ? binary->bytes : compiled->bytes,
        .pBuildFlags = d->build_flags,
    };
    ze_module_handle_t module;
    ze_module_build_log_handle_t log = NULL;
    ze_result_t result = d->ze->zeModuleCreate(d->context, d->handle, &desc, &module, &log);
    int32_t status = result == ZE_RESULT_SUCCESS ? TN_OK : build_error(d, result, log);
    if (log) d->ze->zeModuleBuildLogDestroy(log);
    if (status) return status;
    if (out_binary) get_binary(d, module, out_binary);
    *out_program = module;
    return TN_OK;
}

void xpu_program_destroy(void *device, void *program)
{
    ((xpu_device *)device)->ze->zeModuleDestroy(program);
}

int32_t xpu_kernel_create(void *device, void *program, const char *name, void **out_kernel)
{
    xpu_device *d = device;
    const ze_kernel_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = name};
    ze_kernel_handle_t kernel;
    int32_t status = xpu_check(d, d->ze->zeKernelCreate(program, &desc, &kernel), name);
    if (!status) *out_kernel = kernel;
    return status;
}

void xpu_kernel_destroy(void *device, void *kernel)
{
    ((xpu_device *)device)->ze->zeKernelDestroy(kernel);
}

ze_result_t xpu_set_arguments(const xpu_device *d, const xpu_launch_of *launch, const char **what)
{
    ze_result_t result = d->ze->zeKernelSetGroupSize(launch->kernel, launch->group, 1, 1);
    if (result != ZE_RESULT_SUCCESS) *what = "zeKernelSetGroupSize";
    for (uint32_t i = 0; i < launch->n_arguments && result == ZE_RESULT_SUCCESS; i++) {
        const gpu_argument *a = &launch->arguments[i];
        const void *memory = a->value;
        result = a->is_memory ? d->ze->zeKernelSetArgumentValue(launch->kernel, i, sizeof memory,
                                                                memory ? &memory : NULL)
                              : d->ze->zeKernelSetArgumentValue(launch->kernel, i, a->bytes, a->value);
        if (result != ZE_RESULT_SUCCESS) *what = "zeKernelSetArgumentValue";
    }
    return result;
}

int32_t xpu_launch(void *device, void *queue, void *kernel, const gpu_argument *arguments,
                   uint32_t n_arguments, uint64_t items, uint32_t group)
{
    xpu_device *d = device;
    const xpu_launch_of launch = {.kernel = kernel,
                                  .groups = (uint32_t)(items / group),
                                  .group = group,
                                  .n_arguments = n_arguments,
                                  .arguments = arguments};
    if (items / group > UINT32_MAX)
        return gpu_error(d->plugin, TN_E_UNSUPPORTED, "a kernel for %llu items is too large",
                         (unsigned long long)items);
    return xpu_queue_launch(d, queue, &launch);
}
