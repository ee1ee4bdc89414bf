/* SPDX-License-Identifier: Apache-2.0 */
/* TripletMarginWithDistanceLoss: Balntas et al. 2016, with a distance of the program's own. */
#include "layers.h"

#include <stdlib.h>
#include <string.h>

typedef struct triplet {
    tn_distance_function distance;
    void *user;
    double margin;
    int32_t swap;
    char *reduction;
} triplet;

static tn_tensor *distance_of(tn_scope *s, const triplet *o, tn_tensor *a, tn_tensor *b)
{
    if (tn_scope_failed(s)) return NULL;
    tn_tensor *d = o->distance ? o->distance(o->user, s, a, b) : tn_pairwise_distance(s, a, b);
    if (!d && !tn_scope_failed(s))
        tn_scope_fail(s, TN_E_STATE, "the distance function returned NULL without an error");
    return d;
}

static tn_tensor *triplet_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const triplet *o = m->state;
    (void)more;
    if (tn_module_takes(s, in, 3)) return NULL;
    tn_tensor *near = distance_of(s, o, in.data[0], in.data[1]),
              *far = distance_of(s, o, in.data[0], in.data[2]);
    if (o->swap) far = tn_minimum(s, far, distance_of(s, o, in.data[1], in.data[2]));
    tn_tensor *loss = tn_relu(s, tn_add_scalar(s, tn_sub(s, near, far), o->margin));
    const int64_t reduction = nn_reduction(s, o->reduction);
    return reduction == 0 ? loss : reduction == 1 ? tn_mean(s, loss) : tn_sum(s, loss);
}

static void finish(tn_module *m)
{
    free(((triplet *)m->state)->reduction);
}

tn_module *tn_triplet_margin_with_distance_loss_create_with(
    tn_module *parent, const tn_triplet_margin_with_distance_loss_options *options)
{
    static const tn_module_class class = {.size = sizeof class,
                                          .name = "TripletMarginWithDistanceLoss",
                                          .state_bytes = sizeof(triplet),
                                          .forward = triplet_forward,
                                          .finish = finish};
    if (!parent || parent->tree->status) return NULL;
    if (!options || options->options_size < sizeof *options || !(options->margin > 0) ||
        !options->reduction) {
        nn_fail(parent, TN_E_ARGUMENT,
                "TripletMarginWithDistanceLoss: the options are NULL or too small, or margin is not above 0");
        return NULL;
    }
    tn_module *m = tn_module_add(parent, options->name, &class);
    char *reduction = m ? strdup(options->reduction) : NULL;
    if (!m) return NULL;
    if (!reduction) {
        tn_module_fail(m, TN_E_OUT_OF_MEMORY, NULL);
        tn_module_undo_add(m->tree->first_added);
        return NULL;
    }
    *(triplet *)m->state =
        (triplet){options->distance_function, options->user, options->margin, options->swap, reduction};
    return m;
}
