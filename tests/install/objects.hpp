/* SPDX-License-Identifier: Apache-2.0 */
/* What objects.cpp and callbacks.cpp share: a failed check, the values of a tensor, the message of an error. */
#ifndef OBJECTS_HPP
#define OBJECTS_HPP

#include <cstdio>
#include <tenon/train.hpp>

using tenon::tensor;
namespace nn = tenon::nn;

static inline int wrong(const char *what)
{
    std::printf("wrong: %s\n", what);
    return 1;
}

static inline bool is(const tensor &t, const std::vector<double> &expected)
{
    return t.to(TN_FLOAT64).to_vector<double>() == expected;
}

/* The message of the error that f throws, or "". */
template <class F> std::string thrown(F f, int32_t status = 0)
{
    try {
        f();
    } catch (const tenon::error &e) {
        return status && e.status() != status ? "another status" : e.what();
    } catch (const std::exception &e) {
        return e.what();
    }
    return "";
}

#endif
