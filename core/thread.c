/* SPDX-License-Identifier: Apache-2.0 */
/* The one struct that hangs from each thread. What a member points to is looked after by its owner. */
#include "core/thread.h"

_Thread_local tni_thread tni_tls __attribute__((tls_model("initial-exec")));
