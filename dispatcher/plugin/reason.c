/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons why a plugin was refused; see reason.h. */
#include "dispatcher/plugin/reason.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "core/number_text.h"

int32_t tni_reason_set(tni_reason *reason, int32_t status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tni_vsnprintf(reason->text, sizeof(reason->text), format, args);
    va_end(args);
    return status;
}

void tni_reason_add(tni_reason *reason, const char *format, ...)
{
    size_t used = strlen(reason->text);
    va_list args;
    if (used > 0 && used + 2 < sizeof(reason->text)) {
        memcpy(reason->text + used, "; ", 3);
        used += 2;
    }
    va_start(args, format);
    tni_vsnprintf(reason->text + used, sizeof(reason->text) - used, format, args);
    va_end(args);
}
