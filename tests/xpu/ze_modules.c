/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and kernels of the Level Zero driver for tests: SPIR-V becomes bitcode, which PoCL runs. */
#include "ze_driver.h"

/* ---- PoCL ---------------------------------------------------------------------------------------------------- */

#define CL_FUNCTIONS(X)          \
    X(clGetPlatformIDs)          \
    X(clGetDeviceIDs)            \
    X(clCreateContext)           \
    X(clCreateCommandQueue)      \
    X(clCreateProgramWithBinary) \
    X(clBuildProgram)            \
    X(clGetProgramBuildInfo)     \
    X(clReleaseProgram)          \
    X(clCreateKernel)            \
    X(clReleaseKernel)           \
    X(clGetKernelInfo)           \
    X(clGetKernelArgInfo)        \
    X(clSetKernelArg)            \
    X(clSetKernelArgSVMPointer)  \
    X(clEnqueueNDRangeKernel)    \
    X(clFinish)

static struct {
#define DECLARE(name) __typeof__(&(name)) name;
    CL_FUNCTIONS(DECLARE)
#undef DECLARE
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
} cl;
static pthread_mutex_t cl_lock = PTHREAD_MUTEX_INITIALIZER; /* arguments are kept in kernels */

int start_opencl(void)
{
    cl_platform_id platform;
    cl_int status;
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (cl.queue) return 1;
    if (!library) return 0;
#define LOAD(name)                                      \
    *(void **)(void *)&cl.name = dlsym(library, #name); \
    if (!cl.name) return 0;
    CL_FUNCTIONS(LOAD)
#undef LOAD
    if (cl.clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &cl.device, NULL) != CL_SUCCESS)
        return 0;
    cl.context = cl.clCreateContext(NULL, 1, &cl.device, NULL, NULL, &status);
    if (status == CL_SUCCESS) cl.queue = cl.clCreateCommandQueue(cl.context, cl.device, 0, &status);
    return status == CL_SUCCESS;
}

void run_kernel(const command *c)
{
    const struct _ze_kernel_handle_t *k = c->arguments;
    size_t global = (size_t)c->groups * k->group, local = k->group;
    cl_int status = CL_SUCCESS;
    pthread_mutex_lock(&cl_lock);
    for (uint32_t i = 0; i < k->n_args && status == CL_SUCCESS; i++) {
        const void *p = NULL;
        if (k->args[i].is_memory) memcpy(&p, k->args[i].bytes, sizeof p);
        status = k->args[i].is_memory ? cl.clSetKernelArgSVMPointer(k->kernel, i, p ? real_address(p) : NULL)
                                      : cl.clSetKernelArg(k->kernel, i, k->args[i].size, k->args[i].bytes);
    }
    if (status == CL_SUCCESS)
        status = cl.clEnqueueNDRangeKernel(cl.queue, k->kernel, 1, NULL, &global, &local, 0, NULL, NULL);
    if (status == CL_SUCCESS) status = cl.clFinish(cl.queue);
    pthread_mutex_unlock(&cl_lock);
    if (status != CL_SUCCESS) report("a kernel: OpenCL gives %d", status);
}

/* ---- Modules and kernels ----------------------------------------------------------------------------------------- */

static int read_file(const char *path, uint8_t **out, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    fseek(file, 0, SEEK_END);
    *out_size = (size_t)ftell(file);
    rewind(file);
    *out = malloc(*out_size + 1);
    int is_read = fread(*out, 1, *out_size, file) == *out_size;
    fclose(file);
    return is_read && *out_size > 0;
}

static uint64_t hash_of(const uint8_t *bytes, size_t size)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

/* SPIR-V as LLVM's bitcode, which PoCL takes. */
static int translate(const uint8_t *bytes, size_t size, uint8_t **out, size_t *out_size)
{
    const char *folder = getenv("ZE_TEST_CACHE");
    char from[512], to[512], made[512];
    extern char **environ;
    pid_t child;
    int status = -1;
    snprintf(to, sizeof to, "%s/%016llx.bc", folder ? folder : "/tmp",
             (unsigned long long)hash_of(bytes, size));
    if (folder && read_file(to, out, out_size)) return 1;
    snprintf(from, sizeof from, "%.480s.%d.spv", to, (int)getpid());
    snprintf(made, sizeof made, "%.480s.%d", to, (int)getpid());
    FILE *file = fopen(from, "wb");
    if (!file) return 0;
    int is_written = fwrite(bytes, 1, size, file) == size;
    is_written &= fclose(file) == 0;
    char *argv[] = {"llvm-spirv-15", "-r", from, "-o", made, NULL};
    if (is_written && posix_spawnp(&child, argv[0], NULL, NULL, argv, environ) == 0)
        waitpid(child, &status, 0);
    unlink(from);
    if (status == 0 && rename(made, to) == 0 && read_file(to, out, out_size)) {
        if (!folder) unlink(to);
        return 1;
    }
    return 0;
}

/* Whether the SPIR-V declares that it uses 64-bit floating point. */
static int uses_double(const uint8_t *bytes, size_t size)
{
    enum { HEAD = 5, OP_CAPABILITY = 17, FLOAT64 = 10 };
    const size_t n = size / 4;
    uint32_t word[2], length;
    for (size_t i = HEAD; i + 1 < n; i += length) {
        memcpy(word, bytes + 4 * i, sizeof word);
        length = word[0] >> 16;
        if ((word[0] & 0xFFFF) != OP_CAPABILITY || !length) return 0; /* they come first */
        if (word[1] == FLOAT64) return 1;
    }
    return 0;
}

/* What the code is built for. Flags that the driver does not know would be ignored. */
static native_head head_of(const char *flags)
{
    static const char rounded[] = "-ze-fp32-correctly-rounded-divide-sqrt",
                      large[] = "-ze-opt-greater-than-4GB-buffer-required";
    native_head h = {.magic = "ZETEST1", .has_double = !setting("FAULTY_NO_DOUBLE")};
    char words[sizeof h.flags], *rest = NULL;
    snprintf(h.flags, sizeof h.flags, "%s", flags ? flags : "");
    memcpy(words, h.flags, sizeof words);
    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        if (strcmp(w, rounded) != 0 && strcmp(w, large) != 0) report("zeModuleCreate: flag %s", w);
        if (strcmp(w, rounded) == 0 && setting("ZE_TEST_UNROUNDED"))
            report("zeModuleCreate: this device cannot do %s", w);
    }
    if (setting("ZE_TEST_FLAGS")) report("zeModuleCreate: flags '%s'", h.flags);
    return h;
}

ze_result_t ZE_APICALL zeModuleCreate(ze_context_handle_t context, ze_device_handle_t device,
                                      const ze_module_desc_t *desc, ze_module_handle_t *out,
                                      ze_module_build_log_handle_t *out_log)
{
    static struct _ze_module_build_log_handle_t {
        object o;
    } log = {{.kind = 'B'}};
    if (out_log) *out_log = (ze_module_build_log_handle_t)&log;
    ENTER(context, 'C');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_MODULE_DESC);
    struct _ze_module_handle_t m = {.context = context, .head = head_of(desc->pBuildFlags)};
    cl_int status = CL_INVALID_BINARY, of_binary;
    int is_native = desc->format == ZE_MODULE_FORMAT_NATIVE;
    if (is_native && (desc->inputSize < sizeof m.head || memcmp(desc->pInputModule, &m.head, 8) != 0))
        return leave(ZE_RESULT_ERROR_INVALID_NATIVE_BINARY);
    if (is_native && memcmp(desc->pInputModule, &m.head, sizeof m.head) != 0)
        report("%s: the code was built for another device, or with other flags", __func__);
    if (!is_native && !m.head.has_double && uses_double(desc->pInputModule, desc->inputSize))
        return leave(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
    if (is_native) {
        m.size = desc->inputSize - sizeof m.head;
        m.bytes = malloc(m.size);
        memcpy(m.bytes, desc->pInputModule + sizeof m.head, m.size);
    } else if (!translate(desc->pInputModule, desc->inputSize, &m.bytes, &m.size)) {
        return leave(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
    }
    const unsigned char *bytes = m.bytes;
    pthread_mutex_lock(&cl_lock);
    for (int i = 0; i < 3 && status != CL_SUCCESS;
         i++) { /* it fails while another process fills PoCL's cache */
        m.program =
            cl.clCreateProgramWithBinary(cl.context, 1, &cl.device, &m.size, &bytes, &of_binary, &status);
        if (status == CL_SUCCESS)
            status = cl.clBuildProgram(m.program, 1, &cl.device, "-cl-kernel-arg-info", NULL, NULL);
    }
    pthread_mutex_unlock(&cl_lock);
    if (status != CL_SUCCESS) {
        report("%s: OpenCL gives %d", __func__, status);
        return leave(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
    }
    context->children++;
    *out = make(sizeof m, 'M');
    m.o = (*out)->o;
    **out = m;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeModuleDestroy(ze_module_handle_t module)
{
    ENTER_TO_END(module, 'M');
    if (module->kernels) report("%s: %d kernels are alive", __func__, module->kernels);
    module->context->children--;
    cl.clReleaseProgram(module->program);
    free(module->bytes);
    end_object(module);
    return leave(fault);
}

ze_result_t ZE_APICALL zeModuleGetNativeBinary(ze_module_handle_t module, size_t *size, uint8_t *out)
{
    ENTER(module, 'M');
    const size_t needed = sizeof module->head + module->size;
    if (out && *size < needed) return leave(ZE_RESULT_ERROR_INVALID_SIZE);
    if (out) {
        memcpy(out, &module->head, sizeof module->head);
        memcpy(out + sizeof module->head, module->bytes, module->size);
    }
    *size = needed;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeModuleBuildLogGetString(ze_module_build_log_handle_t log, size_t *size, char *out)
{
    static const char text[] = "the log of the test driver";
    ENTER((object *)log, 'B');
    if (out) memcpy(out, text, *size < sizeof text ? *size : sizeof text);
    *size = sizeof text;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeModuleBuildLogDestroy(ze_module_build_log_handle_t log)
{
    ENTER_TO_END((object *)log, 'B');
    return leave(fault);
}

ze_result_t ZE_APICALL zeKernelCreate(ze_module_handle_t module, const ze_kernel_desc_t *desc,
                                      ze_kernel_handle_t *out)
{
    ENTER(module, 'M');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_KERNEL_DESC);
    cl_int status;
    cl_uint n = 0;
    cl_kernel kernel = cl.clCreateKernel(module->program, desc->pKernelName, &status);
    if (status != CL_SUCCESS) return leave(ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
    cl.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof n, &n, NULL);
    ze_kernel_handle_t k = make(sizeof *k, 'K');
    k->module = module;
    k->kernel = kernel;
    k->n_args = n;
    for (cl_uint i = 0; i < n && i < MOST_ARGS; i++) {
        cl_kernel_arg_address_qualifier where = CL_KERNEL_ARG_ADDRESS_PRIVATE;
        if (cl.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof where, &where, NULL))
            report("%s: argument %u of %s is not known", __func__, i, desc->pKernelName);
        k->args[i].is_memory =
            where == CL_KERNEL_ARG_ADDRESS_GLOBAL || where == CL_KERNEL_ARG_ADDRESS_CONSTANT;
    }
    module->kernels++;
    *out = k;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeKernelDestroy(ze_kernel_handle_t kernel)
{
    ENTER_TO_END(kernel, 'K');
    if (kernel->o.in_use && !is_lost) report("%s: queued commands use the kernel", __func__);
    kernel->module->kernels--;
    cl.clReleaseKernel(kernel->kernel);
    end_object(kernel);
    return leave(fault);
}

ze_result_t ZE_APICALL zeKernelSetGroupSize(ze_kernel_handle_t kernel, uint32_t x, uint32_t y, uint32_t z)
{
    ENTER(kernel, 'K');
    if (!x || x * y * z > 1024) return leave(ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
    kernel->group = x;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeKernelSetArgumentValue(ze_kernel_handle_t kernel, uint32_t i, size_t size,
                                                const void *value)
{
    if (kernel) call_begin(&kernel->o, __func__);
    ze_result_t result = ZE_RESULT_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!kernel || !is_alive(kernel, 'K', __func__)) result = ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!result) result = fault_of(__func__);
    if (!result && i >= kernel->n_args) result = ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX;
    if (!result && (size > 1024 || (kernel->args[i].is_memory && size != sizeof(void *))))
        result = ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE;
    if (!result) {
        memset(kernel->args[i].bytes, 0, sizeof kernel->args[i].bytes);
        if (value) memcpy(kernel->args[i].bytes, value, size);
        kernel->args[i].size = size;
        kernel->args[i].is_set = 1;
    }
    pthread_mutex_unlock(&lock);
    if (kernel) call_end(&kernel->o);
    return result;
}
