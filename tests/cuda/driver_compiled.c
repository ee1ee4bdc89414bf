/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NVIDIA's libraries ask of the driver, beside what the plugin does, when they compile a kernel: each succeeds, and nothing
 * of it can run. Without cuda.h, whose prototypes and newer names for some of these are not needed.
 */
#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, NOT_SUPPORTED = 801 };

/* Each is declared before it is defined, as the warnings want it. */
#define GIVES(name, type, value) /* its first argument is where the result goes */ \
    EXPORT int name(type *out);                                                    \
    int name(type *out)                                                            \
    {                                                                              \
        *out = value;                                                              \
        return SUCCESS;                                                            \
    }
#define RETURNS(name, status) \
    EXPORT int name(void);    \
    int name(void)            \
    {                         \
        return status;        \
    }
#define DOES(name)  RETURNS(name, SUCCESS)
#define LACKS(name) RETURNS(name, NOT_SUPPORTED)

static char code;
GIVES(cuLibraryLoadData, void *, &code)
GIVES(cuLibraryGetKernel, void *, &code)
GIVES(cuKernelGetFunction, void *, &code)
GIVES(cuKernelGetAttribute, int, 0)
GIVES(cuCtxGetLimit, unsigned long, 1024)
DOES(cuKernelSetAttribute)
DOES(cuLibraryUnload)
DOES(cuTensorMapEncodeIm2col)
DOES(cuTensorMapEncodeTiled)
LACKS(cuCtxPopCurrent)
LACKS(cuCtxPushCurrent)
LACKS(cuGetErrorString)
LACKS(cuGetExportTable)
LACKS(cuLaunchCooperativeKernel)
LACKS(cuLaunchKernelEx)
LACKS(cuLibraryLoadFromFile)
LACKS(cuLinkAddData)
LACKS(cuLinkComplete)
LACKS(cuLinkCreate)
LACKS(cuLinkDestroy)
LACKS(cuOccupancyMaxPotentialClusterSize)
