/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late errors that arrive where nobody can be told. A plugin reports an error of queued work once, to whoever
 * waits next; when that is a function without a status (a stream that is released, a cache that is emptied to
 * find memory) it is kept here, and the program's next wait for the device reports it. Without this the
 * results of dropped work would be read as if nothing had happened.
 */
#include <stdio.h>
#include "core/device.h"

int32_t tni_late_init(tni_device *device)
{
    atomic_init(&device->late.code, 0);
    return pthread_mutex_init(&device->late.lock, NULL) ? tni_error(TN_E_INTERNAL, "no mutex for a device")
                                                        : TN_OK;
}

void tni_late_finish(tni_device *device)
{
    pthread_mutex_destroy(&device->late.lock);
}

void tni_late_keep(tni_device *device, int32_t code, const char *what)
{
    if (!code) return;
    code = tni_driver_error(device->type, code, what);
    const tn_error *error = tn_last_error();
    pthread_mutex_lock(&device->late.lock);
    if (!atomic_load(&device->late.code)) {
        snprintf(device->late.text, sizeof device->late.text, "%s", error ? error->message : what);
        atomic_store(&device->late.code, code);
    }
    pthread_mutex_unlock(&device->late.lock);
}

int32_t tni_late_take(tni_device *device)
{
    if (TNI_LIKELY(!atomic_load_explicit(&device->late.code, memory_order_relaxed))) return TN_OK;
    pthread_mutex_lock(&device->late.lock);
    int32_t code = atomic_exchange(&device->late.code, 0);
    if (code) {
        tni_error(code, "%s", device->late.text);
        tni_error_plugin(device->type->driver.plugin);
    }
    pthread_mutex_unlock(&device->late.lock);
    return code;
}
