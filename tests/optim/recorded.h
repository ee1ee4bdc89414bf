/* SPDX-License-Identifier: Apache-2.0 */
/* The setup of a suite that compares with trajectories.safetensors, which record_trajectories.py wrote. */
#ifndef TESTS_OPTIM_RECORDED_H
#define TESTS_OPTIM_RECORDED_H

#include <tenon/optim.h>
#include "../autograd/suite.h"

static tn_safetensors *file;

static void open_file(void)
{
    begin();
    cr_assert_eq(tn_safetensors_open(ctx, TRAJECTORIES_FILE, &file), TN_OK);
}

static void close_file(void)
{
    tn_safetensors_close(file);
    end();
}

static tn_tensor *recorded(const char *name)
{
    tn_tensor *t = tn_safetensors_get(s, file, name, TN_CPU);
    cr_assert_not_null(t, "%s was not recorded", name);
    return t;
}

#endif
