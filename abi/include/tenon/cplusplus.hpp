/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What C++ has in place of C's macros over compound literals: scalars, lists, and the place of a call. C++14 or later,
 * without any header of the C++ library. tenon.h and ops.h include this file.
 */
#ifndef TENON_CPLUSPLUS_HPP
#define TENON_CPLUSPLUS_HPP

#ifndef TN_PLUGIN
#include <tenon/context.h>
#endif
#include <tenon/value.h>

/* A scalar as the calls take it: any number. */
struct tn_scalar {
    tn_value value;
    double pair[2]; /* what a complex value points to */
    template <class T> tn_scalar(T *) = delete; /* a pointer would be true */
    tn_scalar(decltype(nullptr)) = delete;
    tn_scalar() : value(tn_value_none()), pair() {}
    tn_scalar(bool x) : value(tn_value_bool(x)), pair() {}
    tn_scalar(int x) : value(tn_value_int(x)), pair() {}
    tn_scalar(long x) : value(tn_value_int(x)), pair() {}
    tn_scalar(long long x) : value(tn_value_int(x)), pair() {}
    tn_scalar(unsigned x) : value(tn_value_int(x)), pair() {}
    tn_scalar(unsigned long x) : value(tn_value_int(static_cast<int64_t>(x))), pair() {}
    tn_scalar(unsigned long long x) : value(tn_value_int(static_cast<int64_t>(x))), pair() {}
    tn_scalar(double x) : value(tn_value_float(x)), pair() {}
    tn_scalar(long double x) : value(tn_value_float(static_cast<double>(x))), pair() {}
    tn_scalar(tn_value x) : value(x), pair()
    {
        if (x.tag == TN_TAG_COMPLEX) {
            pair[0] = x.as.floats[0];
            pair[1] = x.as.floats[1];
        }
    }
    /* std::complex, without its header. */
    template <class T, class = decltype(T().imag())>
    tn_scalar(const T &x) : value(tn_value_complex(NULL)), pair{static_cast<double>(x.real()), static_cast<double>(x.imag())}
    {
    }
    operator tn_value() const { return value.tag == TN_TAG_COMPLEX ? tn_value_complex(pair) : value; }
};
#define TN_SCALAR(x) tn_scalar(x)

/*
 * What TN_INTS(2, 3) makes in C++: the items themselves, which a call takes for the list. They live to the end of the
 * full expression, as every temporary object; `auto sizes = TN_INTS(2, 3);` keeps them to the end of the block.
 */
template <class List, class Item, size_t N> struct tn_items {
    Item items[N];
    operator List() const { return {items, static_cast<int64_t>(N)}; }
};
template <class List, class Item, class... T> constexpr tn_items<List, Item, sizeof...(T)> tn_items_of(T... x)
{
    return {{static_cast<Item>(x)...}};
}
/* By reference: an object of C++ that is a temporary one holds its tensor to the end of the full expression. */
template <class... T> constexpr tn_items<tn_tensors, tn_tensor *, sizeof...(T)> tn_tensors_of(const T &...x)
{
    return {{static_cast<tn_tensor *>(x)...}};
}
static inline tn_ints tn_no_ints()
{
    static const int64_t nothing[1] = {0};
    return {nothing, 0};
}
#define TN_INTS(...)    tn_items_of<tn_ints, int64_t>(__VA_ARGS__)
#define TN_NO_INTS      tn_no_ints()
#define TN_FLOATS(...)  tn_items_of<tn_floats, double>(__VA_ARGS__)
#define TN_BOOLS(...)   tn_items_of<tn_bools, uint8_t>(__VA_ARGS__)
#define TN_TENSORS(...) tn_tensors_of(__VA_ARGS__)

/*
 * A list as a member of the options of a call. It copies what TN_INTS and the like made, so that
 * `o.stride = TN_INTS(2, 2);` may stand before the call; a list of another origin (tn_ints) is borrowed.
 */
#define TN_LIST_ITEMS 8
template <class List, class Item> struct tn_list {
    const Item *borrowed;
    int64_t count;              /* below 0: of a list that points to NULL, which the call refuses */
    Item copied[TN_LIST_ITEMS]; /* the list, if `borrowed` is NULL */
    tn_list() : borrowed(nullptr), count(0), copied() {}
    tn_list(const List &list)
        : borrowed(list.data), count(list.data || list.count <= 0 ? list.count : -list.count), copied()
    {
    }
    /* A template, so that the first of {0, 1} does not become a pointer: such a list is TN_INTS(0, 1). */
    template <class T> tn_list(T *items, int64_t n) : tn_list(List{items, n}) {}
    template <size_t N> tn_list(const tn_items<List, Item, N> &x) : borrowed(nullptr), count(static_cast<int64_t>(N)), copied()
    {
        static_assert(N <= TN_LIST_ITEMS, "more items than an option copies: write {array, count}, and keep the array");
        for (size_t i = 0; i < N; i++) copied[i] = x.items[i];
    }
    operator List() const
    {
        if (borrowed || !count) return {borrowed, count};
        if (count < 0) return {nullptr, -count};
        return {copied, count};
    }
};

/* The place of a call in the program. As a default argument it is that of the call. */
struct tn_place {
    const char *file;
    uint32_t line;
#if defined(__GNUC__) && !defined(TN_NO_PLACES) && !defined(TN_PLUGIN)
    static constexpr tn_place here(const char *f = __builtin_FILE(), uint32_t l = __builtin_LINE()) { return {f, l}; }
#else
    static constexpr tn_place here() { return {nullptr, 0}; }
#endif
};

#ifndef TN_PLUGIN
/* The place of the calls that are made while the object is there, where they have none of their own. */
struct tn_placed {
    tn_placed(tn_scope *s, tn_place at) : s_(s), at_(at), before_(at.file ? tn_scope_place_begin(s) : 0) {}
    ~tn_placed()
    {
        if (!at_.file) return;
        if (before_ == TN_PLACE_WANTED) tn_scope_call_place(s_, at_.file, at_.line);
        if (before_ <= 0 && s_ && tn_scope_failed(s_) && !tn_scope_error(s_)->file) tn_scope_place(s_, at_.file, at_.line);
    }
    tn_placed(const tn_placed &) = delete;
    tn_placed &operator=(const tn_placed &) = delete;

private:
    tn_scope *s_;
    tn_place at_;
    int32_t before_;
};
#endif

#endif
