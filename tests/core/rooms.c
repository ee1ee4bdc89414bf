/* SPDX-License-Identifier: Apache-2.0 */
/* The list of rooms for tests of the core: none. */
#include "core/context.h"

const tni_room tni_rooms[1] = {{0}};
const uint32_t tni_room_count = 0;
