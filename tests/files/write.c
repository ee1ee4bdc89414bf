/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the file that written.py reads. */
#include <tenon/files.h>

int main(int argc, char **argv)
{
    tn_context *ctx;
    if (argc != 2 || tn_context_create(NULL, &ctx)) return 1;
    tn_scope *s = tn_scope_open(ctx);
    const tn_named_tensor list[] = {
        {"a.x", tn_from_data(s, TN_FLOAT32, TN_INTS(2, 2), (float[]){1, 2, 3, 4}, TN_CPU)},
        {"u", tn_from_data(s, TN_UINT16, TN_INTS(1), (uint16_t[]){65535}, TN_CPU)}};
    tn_pt_save(s, argv[1], (tn_named_tensors){list, 2});
    int status = tn_scope_close(s);
    tn_context_destroy(ctx);
    return status;
}
