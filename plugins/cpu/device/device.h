/* SPDX-License-Identifier: Apache-2.0 */
/* The interfaces of the CPU as a device, for plugin.c. */
#ifndef TENON_CPU_DEVICE_H
#define TENON_CPU_DEVICE_H

#include "support/cpu.h"

extern const tn_device_interface cpu_device_interface;
extern const tn_memory_interface cpu_memory_interface;
extern const tn_copy_interface cpu_copy_interface;
extern const tn_stream_interface cpu_stream_interface;
extern const tn_event_interface cpu_event_interface;
extern const tn_autocast_interface cpu_autocast_interface;
extern const tn_settings_interface cpu_settings_interface;

/* "model name" of /proc/cpuinfo, else "CPU". */
void cpu_device_name(char *name, size_t bytes);

#endif
