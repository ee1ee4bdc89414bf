/* SPDX-License-Identifier: Apache-2.0 */
/* The host in miniature keeps the last error of each thread, since plugins may record one on any thread. */
#include "../../kit/mini_host.h"

#include <criterion/criterion.h>
#include <pthread.h>

static void *fail_elsewhere(void *user)
{
    const tn_host *host = user;
    cr_expect_str_eq(mini_host_error, "");
    cr_expect_eq(host->error(host->context, TN_E_IO, "of the other thread"), TN_E_IO);
    cr_expect_str_eq(mini_host_error, "of the other thread");
    return NULL;
}

Test(mini_host, errors_belong_to_their_thread)
{
    static mini_host h;
    pthread_t thread;
    mini_host_init(&h);
    cr_expect_eq(h.host.error_native(h.host.context, TN_E_INDEX, "of this thread", 7, "SEVEN"), TN_E_INDEX);
    cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, &h.host), 0);
    pthread_join(thread, NULL);
    cr_expect_str_eq(mini_host_error, "of this thread (7: SEVEN)");
}
