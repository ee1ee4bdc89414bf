/* SPDX-License-Identifier: Apache-2.0 */
/* Everything an application needs. Vendors include <tenon/plugin.h> instead. */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <tenon/base.h>
#include <tenon/value.h>
#include <tenon/context.h>
#include <tenon/tensor.h>
#include <tenon/op.h>
#include <tenon/autograd.h>
#include <tenon/device.h>
#include <tenon/graph.h>
#include <tenon/collectives.h>
#include <tenon/interop.h>
#include <tenon/random.h>
#include <tenon/io.h>
#include <tenon/inspect.h>
#include <tenon/trace.h>
#include <tenon/profile.h>
#include <tenon/ops.h>
#include <tenon/place.h> /* last: calls of the functions above say where they are */

#endif
