/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin in an environment in which it does not use oneDNN: DNNL_TEST_SAYS is what the log says. */
#include "dnn.h"

TestSuite(without, .init = open_device, .fini = close_device, .timeout = 60);

Test(without, the_kernels_compute_and_the_log_says_so)
{
    const char *line = getenv("DNNL_TEST_SAYS");
    cr_assert_not_null(line);
    expect_kernels(line);
}
