/* SPDX-License-Identifier: Apache-2.0 */
#include "core/error.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <tenon/context.h>
#include <tenon/op.h>

Test(error, empty_slot)
{
    cr_assert_null(tn_last_error());
    tni_error_operator("add"); /* nothing to add to */
    cr_assert_null(tn_last_error());
}

Test(error, record_and_details)
{
    cr_assert_eq(tni_error(TN_E_SHAPE, "size %d of %s", 3, "x"), 2);
    tni_error_operator("aten::add.Tensor");
    tni_error_plugin("acme");
    tni_error_native(700, "ACME_ERROR");
    const tn_error *e = tn_last_error();
    cr_assert_eq(e->code, 2);
    cr_assert_eq(e->error_class, TN_CLASS_ARGUMENT);
    cr_assert_str_eq(e->message, "add: size 3 of x");
    cr_assert_str_eq(e->op, "aten::add.Tensor");
    cr_assert_str_eq(e->plugin, "acme");
    cr_assert_eq(e->native_code, 700);
    cr_assert_str_eq(e->native_text, "ACME_ERROR");
    cr_assert_null(e->cause);
    tni_error(TN_E_IO, "other");
    e = tn_last_error();
    cr_assert_null(e->op);
    cr_assert_null(e->native_text);
    cr_assert_eq(e->native_code, 0);
    tn_clear_error();
    cr_assert_null(tn_last_error());
}

Test(error, arguments_may_lie_in_the_slot)
{
    tni_error(TN_E_IO, "inner");
    tni_error(TN_E_IO, "outer: %s", tn_last_error()->message);
    cr_assert_str_eq(tn_last_error()->message, "outer: inner");
}

Test(error, long_messages_are_cut)
{
    char text[4000];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = 0;
    tni_error(TN_E_IO, "%s", text);
    cr_assert_eq(strlen(tn_last_error()->message), 1499);
}

/* Whatever bytes the program's texts have: names, paths, the text of its own errors. */
Test(error, texts_are_utf8)
{
    tni_error(TN_E_IO, "argument \"%s\"", "\xff\xfe\n");
    cr_assert_str_eq(tn_last_error()->message, "argument \"\\xff\\xfe\n\"");
    tni_error(TN_E_IO, "%s", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80 \xc3");
    cr_assert_str_eq(tn_last_error()->message, "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80 \\xc3");
    tni_error_native(1, "\x80");
    cr_assert_str_eq(tn_last_error()->native_text, "\\x80");
    tn_error_place(UINT64_MAX, "\xe4.c", 7);
    cr_assert_str_eq(tn_last_error()->file, "\\xe4.c");
    cr_assert_eq(strncmp(tn_last_error()->message, "\\xe4.c:7: gr", 12), 0);

    /* A copy, with the place and the end that a scope adds. */
    tni_error(TN_E_IO, "a");
    tn_error *copy = tni_error_extended(tni_error_copy(), "\xe4.c", 12, ": \xc0");
    cr_assert_str_eq(copy->file, "\\xe4.c");
    cr_assert_str_eq(copy->message, "\\xe4.c:12: a: \\xc0");
    copy = tni_error_extended(copy, "b.c", 3, "");
    cr_assert_str_eq(copy->message, "b.c:3: a: \\xc0");
    tn_error_release(copy);
}

Test(error, long_messages_are_cut_between_characters)
{
    char text[4000];
    for (int i = 0; i < 3999; i++) text[i] = "\xe2\x82\xac"[i % 3];
    text[3999] = 0;
    tni_error(TN_E_IO, "a%s", text);
    cr_assert_eq(strlen(tn_last_error()->message), 1 + 499 * 3, "one byte of the next was left");
}

Test(error, chain_keeps_root_and_newest)
{
    tni_error(TN_E_IO, "root");
    for (int i = 1; i <= 6; i++) tni_error_wrap(TN_E_CORRUPT, "level %d", i);
    const tn_error *e = tn_last_error();
    cr_assert_str_eq(e->message, "level 6");
    cr_assert_str_eq(e->cause->message, "level 5");
    cr_assert_str_eq(e->cause->cause->message, "level 1");
    cr_assert_str_eq(e->cause->cause->cause->message, "root");
    cr_assert_null(e->cause->cause->cause->cause);
}

Test(error, copy_and_restore)
{
    tni_error(TN_E_OUT_OF_MEMORY, "root");
    tni_error_native(2, "driver");
    tni_error_wrap(TN_E_DEVICE, "top");
    tni_error_operator("mul");
    tn_error *copy = tni_error_copy();
    tni_error(TN_E_IO, "another");
    cr_assert_str_eq(copy->message, "mul: top");
    cr_assert_str_eq(copy->op, "mul");
    cr_assert_eq(copy->cause->error_class, TN_CLASS_OUT_OF_MEMORY);
    tni_error_restore(copy);
    tn_error_release(copy);
    const tn_error *e = tn_last_error();
    cr_assert_eq(e->code, TN_E_DEVICE);
    cr_assert_str_eq(e->cause->message, "root");
    cr_assert_str_eq(e->cause->native_text, "driver");
    cr_assert_eq(e->cause->native_code, 2);
    tni_error_restore(e);
    cr_assert_str_eq(tn_last_error()->message, "mul: top");
}

Test(error, ensure)
{
    cr_assert_eq(tni_error_ensure(TN_E_DEVICE, "open"), TN_E_DEVICE);
    cr_assert_str_eq(tn_last_error()->message, "open failed: bad device");
    tni_error(TN_E_DEVICE, "said more");
    tni_error_ensure(TN_E_DEVICE, "open");
    cr_assert_str_eq(tn_last_error()->message, "said more");
    tni_error_ensure(TN_E_IO, "read");
    cr_assert_str_eq(tn_last_error()->message, "read failed: input/output error");
}

static void *other_thread(void *unused)
{
    cr_assert_null(tn_last_error());
    tni_error(TN_E_IO, "mine");
    return NULL;
}

Test(error, threads_have_their_own)
{
    pthread_t thread;
    tni_error(TN_E_SHAPE, "first");
    pthread_create(&thread, NULL, other_thread, NULL);
    pthread_join(thread, NULL);
    cr_assert_str_eq(tn_last_error()->message, "first");
}

Test(error, status_texts)
{
    cr_assert_str_eq(tn_status_text(0), "ok");
    cr_assert_str_eq(tn_status_text(12), "unknown field");
    cr_assert_str_eq(tn_status_text(-1), "unknown status");
    cr_assert_str_eq(tn_status_text(1000), "unknown status");
    cr_assert_str_eq(tn_version(), "0.1.0");
}

Test(error, odd_statuses_and_names)
{
    char name[300];
    cr_assert_eq(tni_error(9999, "x"), TN_E_CONTRACT);
    cr_assert_str_eq(tn_last_error()->message, "x (9999 is not a valid status code)");
    cr_assert_eq(tni_error(-1, "x"), TN_E_CONTRACT);
    cr_assert_str_eq(tn_last_error()->message, "x (-1 is not a valid status code)");
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    tni_error(TN_E_SHAPE, "sizes");
    tni_error_operator(NULL);
    tni_error_plugin(NULL);
    cr_assert_null(tn_last_error()->op);
    tni_error_operator(name); /* too long to stand before the message, and cut */
    tni_error_plugin(name);
    cr_assert_str_eq(tn_last_error()->message, "sizes");
    cr_assert_eq(strlen(tn_last_error()->op), 127);
    cr_assert_eq(strlen(tn_last_error()->plugin), 127);
    tni_error_no_memory(NULL, 5);
    cr_assert_str_eq(tn_last_error()->message, "out of memory: the library needs 5 bytes");
    tn_clear_error();
    tni_error_plugin("acme"); /* nothing to add to */
    cr_assert_eq(tni_error_ensure(TN_E_IO, NULL), TN_E_IO);
    cr_assert_eq(strncmp(tn_last_error()->message, "a call failed: ", 15), 0);
    cr_assert_eq(tni_error_ensure(TN_E_SHAPE, "x"), TN_E_SHAPE);
    cr_assert_eq(tn_last_error()->code, TN_E_SHAPE);
    cr_assert_eq(tni_error_ensure(TN_OK, "x"), TN_OK);
}
