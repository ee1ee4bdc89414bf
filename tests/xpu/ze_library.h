/* SPDX-License-Identifier: Apache-2.0 */
/* What the Level Zero driver for tests offers to libraries for tests, which find it with dlsym: work on its lists, device memory. */
#ifndef TESTS_XPU_ZE_LIBRARY_H
#define TESTS_XPU_ZE_LIBRARY_H

#include <level_zero/ze_api.h>
#include <stddef.h>

#define ZE_TEST_API __attribute__((visibility("default")))

typedef void ze_test_work(void *data);
/* Appends a function with a copy of its data, which the thread of the list calls. */
ZE_TEST_API ze_result_t ze_test_queue(ze_command_list_handle_t list, ze_test_work *work, const void *data,
                                      size_t bytes);
/* Whether all work of the list has finished. */
ZE_TEST_API int ze_test_is_idle(ze_command_list_handle_t list);
/* Where device memory of a context lies, or NULL: the range is not in one allocation. */
ZE_TEST_API void *ze_test_place(ze_context_handle_t context, const void *p, size_t bytes);

#endif
