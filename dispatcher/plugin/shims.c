/* SPDX-License-Identifier: Apache-2.0 */
/* Which shims are requested; see shims.h. */
#include "dispatcher/plugin/shims.h"

#include <stdlib.h>
#include <string.h>

const tni_shim_kind tni_shim_kinds[TNI_SHIM_COUNT] = {
    [TNI_SHIM_RECORD] = {"record", "TENON_RECORD"},
    [TNI_SHIM_VALIDATE] = {"validate", "TENON_VALIDATE"},
    [TNI_SHIM_INJECT] = {"inject", "TENON_INJECT"},
};

static int32_t find(const char *name, size_t length)
{
    for (int32_t i = 0; i < TNI_SHIM_COUNT; i++) {
        if (strlen(tni_shim_kinds[i].name) == length && memcmp(tni_shim_kinds[i].name, name, length) == 0)
            return i;
    }
    return -1;
}

int32_t tni_shim_index(const char *name)
{
    return find(name, strlen(name));
}

static int32_t ask(tni_shim_wishes *w, int32_t index, const char *setting, size_t length)
{
    if (length == 0 || (length == 1 && setting[0] == '0')) {
        w->asked &= ~(1u << index);
        return TN_OK;
    }
    if (length >= sizeof(w->setting[0]))
        return tni_error(TN_E_ARGUMENT, "the setting of shim '%s' is too long: %zu bytes, at most %zu",
                         tni_shim_kinds[index].name, length, sizeof(w->setting[0]) - 1);
    memcpy(w->setting[index], setting, length);
    w->setting[index][length] = 0;
    w->asked |= 1u << index;
    return TN_OK;
}

static int32_t read_option(tni_shim_wishes *w, const char *list)
{
    int32_t status = TN_OK;
    while (!status && *list) {
        size_t length = strcspn(list, ";"), name = strcspn(list, "=;");
        int32_t index = find(list, name);
        if (length > 0 && (index < 0 || name == length))
            return tni_error(TN_E_ARGUMENT,
                             "tn_context_options.shims: '%.*s' is unknown (expected record=FILE, validate=1 "
                             "or inject=SLOT:N[:STATUS])",
                             (int)(length < 200 ? length : 200), list);
        if (length > 0) status = ask(w, index, list + name + 1, length - name - 1);
        list += length + (list[length] == ';');
    }
    return status;
}

int32_t tni_shim_wishes_read(const tn_context_options *options, tni_shim_wishes *out)
{
    int32_t status = TN_OK;
    *out = (tni_shim_wishes){0};
    for (int32_t i = 0; !status && i < TNI_SHIM_COUNT; i++) {
        const char *setting = secure_getenv(tni_shim_kinds[i].variable);
        if (setting) status = ask(out, i, setting, strlen(setting));
    }
    if (!status && options && options->shims) status = read_option(out, options->shims);
    return status;
}
