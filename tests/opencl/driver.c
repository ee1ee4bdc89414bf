/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL driver and the cache of programs alone, below the contract: what `tenon check` cannot reach. */
#include "../gpu/driver_fixture.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../core/at_end.h"

static char folder[] = "/tmp/tenon_cache_XXXXXX";
static int32_t folder_status;
static int32_t give_folder(void *context, const char *name, char *out, uint32_t bytes)
{
    snprintf(out, bytes, "%s", folder);
    return strcmp(name, "opencl") ? TN_E_ARGUMENT : folder_status;
}
static void open_first(void)
{
    host.cache_folder = give_folder;
    open_first_device("no OpenCL device (Debian: pocl-opencl-icd)");
}
TestSuite(driver, .init = open_first, .fini = close_first_device);

static const char doubling[] = "__kernel void doubled(__global float *x) { x[get_global_id(0)] *= 2.0f; }";

static float run_doubled(void *program)
{
    void *kernel, *queue, *memory;
    float x[64] = {[5] = 21};
    cr_assert_eq(driver->kernel_create(device, program, "doubled", &kernel), TN_OK, "%s", last_error);
    cr_assert_eq(driver->queue_create(device, 0, &queue), TN_OK);
    cr_assert_eq(driver->alloc(device, sizeof x, &memory), TN_OK);
    cr_assert_eq(driver->write(device, queue, memory, 0, x, sizeof x), TN_OK);
    gpu_argument argument = {.is_memory = 1, .value = memory};
    cr_assert_eq(driver->launch(device, queue, kernel, &argument, 1, 64, 64), TN_OK);
    cr_assert_eq(driver->read(device, queue, x, memory, 0, sizeof x), TN_OK);
    cr_assert_eq(driver->queue_finish(device, queue), TN_OK);
    driver->kernel_destroy(device, kernel);
    driver->queue_destroy(device, queue);
    driver->free(device, memory);
    return x[5];
}

Test(driver, the_compilers_log_is_in_the_error)
{
    void *program = NULL;
    cr_assert_eq(driver->program_create(device, "__kernel void f(__global int *x) { *x = no_such_name; }", "",
                                        NULL, &program, NULL),
                 TN_E_INTERNAL);
    cr_assert_null(program);
    cr_assert_not_null(
        strstr(last_error, "opencl: the device code does not compile: CL_BUILD_PROGRAM_FAILURE"));
    cr_assert_not_null(strstr(last_error, "no_such_name"), "%s", last_error);
    cr_assert_eq(last_native, -11);
}

Test(driver, a_kernel_that_is_not_there)
{
    void *program, *kernel = NULL;
    cr_assert_eq(driver->program_create(device, doubling, "", NULL, &program, NULL), TN_OK, "%s", last_error);
    cr_assert_eq(driver->kernel_create(device, program, "tripled", &kernel), TN_E_INTERNAL);
    cr_assert_not_null(strstr(last_error, "tripled failed: CL_INVALID_KERNEL_NAME"), "%s", last_error);
    driver->program_destroy(device, program);
}

Test(driver, a_binary_runs_like_its_source)
{
    void *program;
    gpu_binary binary = {0};
    cr_assert_eq(driver->program_create(device, doubling, "", NULL, &program, &binary), TN_OK, "%s",
                 last_error);
    cr_assert_eq(run_doubled(program), 42);
    driver->program_destroy(device, program);
    cr_assert_gt(binary.size, 0);
    cr_assert_eq(driver->program_create(device, doubling, "", &binary, &program, NULL), TN_OK, "%s",
                 last_error);
    cr_assert_eq(run_doubled(program), 42);
    driver->program_destroy(device, program);
    memset(binary.bytes, 0x5a, binary.size);
    cr_assert_neq(driver->program_create(device, doubling, "", &binary, &program, NULL), TN_OK);
    free(binary.bytes);
}

Test(driver, more_memory_than_the_device_allocates)
{
    void *memory = NULL;
    cr_assert_eq(driver->alloc(device, (uint64_t)1 << 60, &memory), TN_E_OUT_OF_MEMORY);
    cr_assert_null(memory);
    cr_assert_not_null(strstr(last_error, "allocating 1152921504606846976 bytes failed"), "%s", last_error);
}

#define OF_OPENCL(name) __typeof__(&name) real_##name = (__typeof__(&name))dlsym(library, #name)

/* It cannot wait for an event of this context, and an error of the caller loses no device. */
Test(driver, a_queue_of_another_context_is_refused)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *queue, *event;
    uint64_t native;
    cl_int status;
    OF_OPENCL(clCreateContext);
    OF_OPENCL(clCreateCommandQueue);
    OF_OPENCL(clReleaseCommandQueue);
    OF_OPENCL(clReleaseContext);
    cr_assert_eq(driver->native(device, TN_NATIVE_DEVICE, NULL, &native), TN_OK);
    cl_device_id id = (cl_device_id)(uintptr_t)native;
    cl_context theirs = real_clCreateContext(NULL, 1, &id, NULL, NULL, &status);
    cr_assert_eq(status, CL_SUCCESS);
    cl_command_queue other = real_clCreateCommandQueue(theirs, id, 0, &status);
    cr_assert_eq(status, CL_SUCCESS);
    cr_assert_eq(driver->queue_create(device, 0, &queue), TN_OK);
    cr_assert_eq(driver->event_record(device, queue, &event), TN_OK);
    cr_expect_eq(driver->native_wait(device, (uintptr_t)other, event), TN_E_ARGUMENT, "%s", last_error);
    cr_expect_eq(driver->status(device), TN_OK, "%s", last_error);
    driver->event_release(device, event);
    driver->queue_destroy(device, queue);
    real_clReleaseCommandQueue(other);
    real_clReleaseContext(theirs);
}

Test(driver, a_queue_without_profiling_has_no_times)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *queue, *event;
    uint64_t context, id;
    double ms;
    cl_int status;
    OF_OPENCL(clCreateCommandQueue);
    OF_OPENCL(clReleaseCommandQueue);
    cr_assert_eq(driver->native(device, TN_NATIVE_DEVICE, NULL, &id), TN_OK);
    cr_assert_eq(driver->native(device, TN_NATIVE_CONTEXT, NULL, &context), TN_OK);
    cl_command_queue theirs =
        real_clCreateCommandQueue((cl_context)(uintptr_t)context, (cl_device_id)(uintptr_t)id, 0, &status);
    cr_assert_eq(status, CL_SUCCESS);
    cr_assert_eq(driver->queue_wrap(device, (uintptr_t)theirs, &queue), TN_OK, "%s", last_error);
    cr_assert_eq(driver->event_record(device, queue, &event), TN_OK);
    cr_expect_eq(driver->event_elapsed(device, event, event, &ms), TN_E_UNSUPPORTED, "%s", last_error);
    cr_expect_not_null(strstr(last_error, "a queue without profiling"), "%s", last_error);
    driver->event_release(device, event);
    driver->queue_destroy(device, queue);
    real_clReleaseCommandQueue(theirs);
}

/* ---- The cache -------------------------------------------------------------------------------------------- */

static void make_folder(void)
{
    host.cache_folder = give_folder;
    cr_assert_not_null(mkdtemp(folder));
    gpu_cache_find(&plugin);
    cr_assert_str_eq(plugin.cache_folder, folder);
}
static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    MUST_HOLD(system(command) == 0);
}
TestSuite(cache, .init = make_folder, .fini = remove_folder);

static const gpu_binary stored = {"some code", 9};

static int32_t is_there(const char *key, const char *source)
{
    gpu_binary found;
    gpu_cache_read(plugin.cache_folder, key, source, &found);
    int32_t there =
        found.bytes && found.size == stored.size && memcmp(found.bytes, stored.bytes, stored.size) == 0;
    cr_assert(there || !found.bytes, "another program's code");
    free(found.bytes);
    return there;
}

Test(cache, keeps_programs_by_key_and_source)
{
    cr_assert_not(is_there("key", "source"));
    gpu_cache_write(plugin.cache_folder, "key", "source", &stored);
    cr_assert(is_there("key", "source"));
    cr_assert_not(is_there("other key", "source"));
    cr_assert_not(is_there("key", "other source"));
}

Test(cache, takes_no_folder_that_others_may_write)
{
    cr_assert_eq(chmod(folder, 0777), 0);
    gpu_cache_find(&plugin);
    cr_assert_str_empty(plugin.cache_folder);
}

Test(cache, works_without_a_folder)
{
    folder_status = TN_E_IO;
    gpu_cache_find(&plugin);
    cr_assert_str_empty(plugin.cache_folder);
    gpu_cache_write(plugin.cache_folder, "key", "source", &stored);
    cr_assert_not(is_there("key", "source"));
    snprintf(plugin.cache_folder, sizeof plugin.cache_folder, "/proc/nowhere");
    gpu_cache_write(plugin.cache_folder, "key", "source", &stored);
    cr_assert_not(is_there("key", "source"));
}

/* Each byte of a file decides: a cut or changed one is not taken. */
Test(cache, refuses_damaged_files)
{
    char command[512];
    gpu_cache_write(plugin.cache_folder, "key", "source", &stored);
    snprintf(command, sizeof command, "truncate -s -1 %s/*.bin", folder);
    cr_assert_eq(system(command), 0);
    cr_assert_not(is_there("key", "source"));
    gpu_cache_write(plugin.cache_folder, "key", "source", &stored);
    cr_assert(is_there("key", "source"));
    snprintf(command, sizeof command, "for f in %s/*.bin; do printf x >> $f; done", folder);
    cr_assert_eq(system(command), 0);
    cr_assert_not(is_there("key", "source"));
}
