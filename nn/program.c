/* SPDX-License-Identifier: Apache-2.0 */
/* Texts in the memory of a scope. */
#include <tenon/program.h>

#include <stdarg.h>

const char *tn_text(tn_scope *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) tn_scope_fail(s, TN_E_ARGUMENT, "tn_text: argument 'format': vsnprintf refuses it");
    char *text = tn_scope_memory(s, (uint64_t)(length < 0 ? 0 : length) + 1);
    if (!text) return "";
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}
