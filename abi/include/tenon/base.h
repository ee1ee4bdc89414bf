/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every other header needs: versions, statuses, packed dtypes and devices, and the macros that say
 * who owns an argument and which threads may call a function.
 *
 * Everything that crosses the contract has a fixed width. Structs that may grow begin with `uint32_t size`
 * and are append-only; zero always means the behaviour before the field existed.
 */
#ifndef TENON_BASE_H
#define TENON_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define TN_BEGIN_DECLS extern "C" {
#define TN_END_DECLS   }
#else
#define TN_BEGIN_DECLS
#define TN_END_DECLS
#endif

/* A cast in a header that C++ reads, too, where -Wold-style-cast warns of those of C. */
#ifdef __cplusplus
#define TN_CAST(type, value) static_cast<type>(value)
#else
#define TN_CAST(type, value) ((type)(value))
#endif

/* For functions that hand the address of a list back in a struct. They are inlined at once: gcc 12 does not see the address
 * otherwise (-fipa-modref; at -O1, -O2 and -Os), and drops the stores to the list. The calls of ops.h do not need it: they pass
 * the address on to a function of the library, which gcc sees. */
#ifdef __GNUC__
#define TN_ALWAYS_INLINE __attribute__((always_inline))
#else
#define TN_ALWAYS_INLINE
#endif

#if defined(_MSC_VER) && defined(TN_PLUGIN)
#define TN_API __declspec(dllexport)
#elif defined(_MSC_VER)
#define TN_API __declspec(dllimport)
#elif defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#else
#define TN_API
#endif

/*
 * Notes on ownership and threads. They expand to nothing (clang keeps them as annotations when TN_ANNOTATE
 * is defined); abi/layout.lock and the validation layer are made from them.
 *
 *   TN_BORROWS       the callee uses the argument until it returns; the caller keeps it
 *   TN_TAKES         the callee takes the caller's reference, also when it fails
 *   TN_GIVES         the caller receives a reference and must release it
 *   TN_SCOPED        the result belongs to the scope of the call and lives until the scope closes
 *   TN_OUT           written on success only
 *   TN_NULLABLE      NULL is legal and means absent
 *   TN_ANY_THREAD    may be called from any thread at any time
 *   TN_SCOPE_THREAD  only from the thread that opened the scope
 *   TN_HOST_THREAD   called by the host, by one thread at a time for one object
 *   TN_IN_KERNEL     may be called while a kernel function runs
 *   TN_IN_CALLBACK   may be called from a stream's host callback
 */
#if defined(__clang__) && defined(TN_ANNOTATE)
#define TN_NOTE(x) __attribute__((annotate(x)))
#else
#define TN_NOTE(x)
#endif
#define TN_BORROWS      TN_NOTE("tn:borrows")
#define TN_TAKES        TN_NOTE("tn:takes")
#define TN_GIVES        TN_NOTE("tn:gives")
#define TN_SCOPED       TN_NOTE("tn:scoped")
#define TN_OUT          TN_NOTE("tn:out")
#define TN_NULLABLE     TN_NOTE("tn:nullable")
#define TN_ANY_THREAD   TN_NOTE("tn:any_thread")
#define TN_SCOPE_THREAD TN_NOTE("tn:scope_thread")
#define TN_HOST_THREAD  TN_NOTE("tn:host_thread")
#define TN_IN_KERNEL    TN_NOTE("tn:in_kernel")
#define TN_IN_CALLBACK  TN_NOTE("tn:in_callback")

TN_BEGIN_DECLS

/*
 * Versions. The major version covers the info block, the entry function, values, calls and errors; it is 0
 * until the contract is frozen. The minor version counts additions; nothing is decided by it.
 */
#define TN_ABI_MAJOR 0u
#define TN_ABI_MINOR 2u
/* The version that host and plugin negotiate. It counts the contracts that cannot be mixed: 1 was 0.1, 2 is 0.2.
 * After 1.0 only a new major version raises it. */
#define TN_ABI_GENERATION 2u

#define TN_VERSION_MAJOR 0u
#define TN_VERSION_MINOR 1u
#define TN_VERSION_PATCH 0u

/* Statuses. Append-only. A function that can fail returns one as int32_t; 0 is success. */
#define TN_STATUS_LIST(X)                      \
    X(TN_OK, 0, "ok")                          \
    X(TN_E_ARGUMENT, 1, "bad argument")        \
    X(TN_E_SHAPE, 2, "bad shape")              \
    X(TN_E_DTYPE, 3, "bad dtype")              \
    X(TN_E_DEVICE, 4, "bad device")            \
    X(TN_E_INDEX, 5, "index out of range")     \
    X(TN_E_UNSUPPORTED, 6, "unsupported")      \
    X(TN_E_NOT_FOUND, 7, "not found")          \
    X(TN_E_EXISTS, 8, "already there")         \
    X(TN_E_OUT_OF_MEMORY, 9, "out of memory")  \
    X(TN_E_DEVICE_LOST, 10, "device lost")     \
    X(TN_E_CONTRACT, 11, "contract breach")    \
    X(TN_E_UNKNOWN_FIELD, 12, "unknown field") \
    X(TN_E_VERSION, 13, "version mismatch")    \
    X(TN_E_SYNTAX, 14, "syntax error")         \
    X(TN_E_IO, 15, "input/output error")       \
    X(TN_E_CORRUPT, 16, "corrupt data")        \
    X(TN_E_STATE, 17, "wrong state")           \
    X(TN_E_AUTOGRAD, 18, "autograd error")     \
    X(TN_E_DEAD_HANDLE, 19, "dead handle")     \
    X(TN_E_FORKED, 20, "used after fork")      \
    X(TN_E_INTERNAL, 21, "internal error")

#define TN_STATUS_CONSTANT(name, value, text) name = value,
enum { TN_STATUS_LIST(TN_STATUS_CONSTANT) TN_STATUS_COUNT = 22 };
#undef TN_STATUS_CONSTANT

/* Classes of errors: what a program can do about one. */
#define TN_CLASS_NONE          0
#define TN_CLASS_ARGUMENT      1 /* correct the call */
#define TN_CLASS_UNSUPPORTED   2 /* use another operator, dtype or device */
#define TN_CLASS_OUT_OF_MEMORY 3 /* free memory and try again */
#define TN_CLASS_DEVICE_LOST   4 /* the device and its tensors are gone; use another device */
#define TN_CLASS_CONTRACT      5 /* a plugin, or the use of a handle, is wrong */
#define TN_CLASS_INTERNAL      6 /* a bug of the library */

/*
 * An error, made by the host. `message` can be shown as it is: it names the operator, the argument, what was
 * given and what was expected. All strings live as long as the error. `cause` is the error that led to this
 * one, or NULL. With a place the message begins with it: "model.c:49: linear: ...".
 */
typedef struct tn_error {
    uint32_t size;
    int32_t code;        /* TN_E_... */
    int32_t error_class; /* TN_CLASS_... */
    int32_t native_code; /* the vendor's own error code, or 0 */
    const char *message;
    const char *op;          /* the operator whose call failed, or NULL */
    const char *plugin;      /* the plugin that reported it, or NULL */
    const char *native_text; /* the vendor's own text, or NULL */
    const struct tn_error *cause;
    const char *file; /* source file and line of the program's call that failed; NULL and 0 if not known */
    uint32_t line;
    uint32_t reserved;
} tn_error;

/* Opaque objects; their headers say which are reference counted and which belong to a scope. */
typedef struct tn_context tn_context;
typedef struct tn_scope tn_scope;
typedef struct tn_tensor tn_tensor;
typedef struct tn_generator tn_generator;
typedef struct tn_stream tn_stream;
typedef struct tn_event tn_event;

/*
 * A dtype is {code, bits, lanes} packed into 32 bits: code | bits << 8 | lanes << 16, with DLPack's codes.
 * Codes from 128 up are not DLPack's; a context gives those from TN_CODE_VENDOR up to dtypes of vendors
 * (tn_dtype_intern). An element takes bits * lanes bits, rounded up to whole bytes. 0 is "no dtype". The
 * elements of a bool tensor are the bytes 0 and 1, nothing else (see op.h).
 */
typedef uint32_t tn_dtype;
#define TN_DTYPE(code, bits)  (TN_CAST(uint32_t, code) | TN_CAST(uint32_t, bits) << 8 | 1u << 16)
#define TN_DTYPE_CODE(dtype)  ((dtype)&0xffu)
#define TN_DTYPE_BITS(dtype)  ((dtype) >> 8 & 0xffu)
#define TN_DTYPE_LANES(dtype) ((dtype) >> 16)

#define TN_CODE_INT             0u
#define TN_CODE_UINT            1u
#define TN_CODE_FLOAT           2u
#define TN_CODE_BFLOAT          4u
#define TN_CODE_COMPLEX         5u
#define TN_CODE_BOOL            6u
#define TN_CODE_FLOAT8_E4M3FN   10u
#define TN_CODE_FLOAT8_E4M3FNUZ 11u
#define TN_CODE_FLOAT8_E5M2     12u
#define TN_CODE_FLOAT8_E5M2FNUZ 13u
#define TN_CODE_FLOAT8_E8M0FNU  14u
#define TN_CODE_QUINT8          128u
#define TN_CODE_QINT8           129u
#define TN_CODE_QINT32          130u
#define TN_CODE_QUINT4X2        131u
#define TN_CODE_VENDOR          160u

#define TN_BOOL            TN_DTYPE(TN_CODE_BOOL, 8)
#define TN_UINT8           TN_DTYPE(TN_CODE_UINT, 8)
#define TN_UINT16          TN_DTYPE(TN_CODE_UINT, 16)
#define TN_UINT32          TN_DTYPE(TN_CODE_UINT, 32)
#define TN_UINT64          TN_DTYPE(TN_CODE_UINT, 64)
#define TN_INT8            TN_DTYPE(TN_CODE_INT, 8)
#define TN_INT16           TN_DTYPE(TN_CODE_INT, 16)
#define TN_INT32           TN_DTYPE(TN_CODE_INT, 32)
#define TN_INT64           TN_DTYPE(TN_CODE_INT, 64)
#define TN_FLOAT16         TN_DTYPE(TN_CODE_FLOAT, 16)
#define TN_BFLOAT16        TN_DTYPE(TN_CODE_BFLOAT, 16)
#define TN_FLOAT32         TN_DTYPE(TN_CODE_FLOAT, 32)
#define TN_FLOAT64         TN_DTYPE(TN_CODE_FLOAT, 64)
#define TN_COMPLEX32       TN_DTYPE(TN_CODE_COMPLEX, 32)
#define TN_COMPLEX64       TN_DTYPE(TN_CODE_COMPLEX, 64)
#define TN_COMPLEX128      TN_DTYPE(TN_CODE_COMPLEX, 128)
#define TN_FLOAT8_E4M3FN   TN_DTYPE(TN_CODE_FLOAT8_E4M3FN, 8)
#define TN_FLOAT8_E4M3FNUZ TN_DTYPE(TN_CODE_FLOAT8_E4M3FNUZ, 8)
#define TN_FLOAT8_E5M2     TN_DTYPE(TN_CODE_FLOAT8_E5M2, 8)
#define TN_FLOAT8_E5M2FNUZ TN_DTYPE(TN_CODE_FLOAT8_E5M2FNUZ, 8)
#define TN_FLOAT8_E8M0FNU  TN_DTYPE(TN_CODE_FLOAT8_E8M0FNU, 8)
#define TN_QUINT8          TN_DTYPE(TN_CODE_QUINT8, 8)
#define TN_QINT8           TN_DTYPE(TN_CODE_QINT8, 8)
#define TN_QINT32          TN_DTYPE(TN_CODE_QINT32, 32)
#define TN_QUINT4X2        TN_DTYPE(TN_CODE_QUINT4X2, 8)

/*
 * Device types and layouts are open sets of names. A context interns each name to a small number
 * (tn_intern); these three have the same number in every context.
 */
#define TN_INTERNED_CPU     1u
#define TN_INTERNED_META    2u
#define TN_INTERNED_STRIDED 3u

/*
 * A device is {interned type, index} packed into 64 bits; 0 is "no device". Index -1 is the current device
 * of that type on the calling thread.
 */
typedef uint64_t tn_device;
#define TN_DEVICE(type, index)  (TN_CAST(uint64_t, type) << 32 | TN_CAST(uint32_t, index))
#define TN_DEVICE_TYPE(device)  TN_CAST(uint32_t, (device) >> 32)
#define TN_DEVICE_INDEX(device) TN_CAST(int32_t, TN_CAST(uint32_t, device))
#define TN_CPU                  TN_DEVICE(TN_INTERNED_CPU, 0)

/* Memory formats, with ATen's numbers. */
#define TN_CONTIGUOUS_FORMAT 0
#define TN_PRESERVE_FORMAT   1
#define TN_CHANNELS_LAST     2
#define TN_CHANNELS_LAST_3D  3

/* What losses do with the losses of elements (.reduction), with ATen's numbers: keep them, their mean, their sum. */
#define TN_REDUCTION_NONE 0
#define TN_REDUCTION_MEAN 1
#define TN_REDUCTION_SUM  2

/* An absent optional int or float: -2^63, which a double holds exactly. Neither type uses it as a value. */
#define TN_NONE INT64_MIN

/* The largest rank of a tensor. */
#define TN_MAX_RANK 64

TN_END_DECLS
#endif
