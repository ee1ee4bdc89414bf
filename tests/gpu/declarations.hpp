// SPDX-License-Identifier: Apache-2.0
// A plugin's own declarations of a vendor's library beside the library's header: numbers, records, how arguments are passed. The
// plugin's header is included in the namespace `ours`, behind the headers that it needs itself.
#ifndef TESTS_GPU_DECLARATIONS_HPP
#define TESTS_GPU_DECLARATIONS_HPP

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>

#define _Static_assert static_assert
#define restrict       __restrict

static int passed, failed, skipped;

[[maybe_unused]] static void same(const char *what, intmax_t is, intmax_t wanted)
{
    is == wanted ? ++passed : ++failed;
    if (is != wanted) std::printf("%s is %" PRIdMAX ", the vendor has %" PRIdMAX "\n", what, is, wanted);
}
#define SAME(own, vendor)             same(#own " of " #vendor, (intmax_t)ours::own, (intmax_t)(vendor))
#define SAME_SIZE(own, vendor)        same("the size of " #own, sizeof(ours::own), sizeof(vendor))
#define SAME_PLACE(own, x, vendor, y) same("the place of " #own "." #x, offsetof(ours::own, x), offsetof(vendor, y))

// How an argument is passed: numbers by kind and size, structures by size; an enumeration is an integer.
template <class T> static std::string kind()
{
    const std::string size = std::to_string(sizeof(std::conditional_t<std::is_void_v<T>, char, T>));
    if (std::is_void_v<T>) return "nothing";
    return (std::is_pointer_v<T>          ? "pointer"
            : std::is_floating_point_v<T> ? "float"
            : std::is_class_v<T>          ? "structure"
                                          : "integer") +
           size;
}

template <class R, class... A> static std::string signature(R (*)(A...))
{
    std::string text = kind<R>() + "(";
    ((text += kind<A>() + " "), ...);
    return text + ")";
}

[[maybe_unused]] static void same_signature(const char *name, const std::string &own, const std::string &vendor)
{
    own == vendor ? ++passed : ++failed;
    if (own != vendor) std::printf("%s is %s, the vendor has %s\n", name, own.c_str(), vendor.c_str());
}
// Of a list of functions.
#define SIGNATURE(result, name, arguments)                                     \
    same_signature(#name, signature(static_cast<result(*) arguments>(nullptr)), \
                   signature(static_cast<decltype(&::name)>(nullptr)));

[[maybe_unused]] static void lacks(const char *header)
{
    std::printf("skipped: %s not found\n", header);
    skipped++;
}

static int conclude()
{
    std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : passed ? 0 : 77;
}

#endif
