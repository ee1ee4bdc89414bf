/* SPDX-License-Identifier: Apache-2.0 */
/* Finds device code that was compiled with the plugin. */
#include "modules.h"
#include "gpu.h"

const gpu_module *gpu_module_find(const char *source, const char *options)
{
    const gpu_source *s = gpu_sources;
    while (s->text && s->text != source) s++;
    for (const gpu_module *m = gpu_modules; s->text && m->name; m++)
        if (strcmp(m->name, s->name) == 0 && strcmp(m->options, options) == 0) return m;
    return NULL;
}
