// SPDX-License-Identifier: Apache-2.0
// The XPU plugin's own declarations of oneDNN beside the headers of a oneDNN for Level Zero, where the machine has them.
#include "../../gpu/declarations.hpp"

#include <level_zero/ze_api.h>

namespace ours {
#include "../../../plugins/xpu/dnnl.h"
} // namespace ours

#if __has_include(<oneapi/dnnl/dnnl_ze.h>)
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_ze.h>

int main()
{
    using namespace ours;
    SAME(DNNL_MAJOR, DNNL_VERSION_MAJOR);
    SAME(DNNL_RUNTIME_LEVEL_ZERO, DNNL_RUNTIME_ZE);
    SAME(DNNL_SUCCESS, dnnl_success);
    SAME(DNNL_OUT_OF_MEMORY, dnnl_out_of_memory);
    SAME(DNNL_INVALID_ARGUMENTS, dnnl_invalid_arguments);
    SAME(DNNL_UNIMPLEMENTED, dnnl_unimplemented);
    SAME(DNNL_RUNTIME_ERROR, dnnl_runtime_error);
    SAME(DNNL_ANY_TYPE, dnnl_data_type_undef);
    SAME(DNNL_F16, dnnl_f16);
    SAME(DNNL_BF16, dnnl_bf16);
    SAME(DNNL_F32, dnnl_f32);
    SAME(DNNL_F64, dnnl_f64);
    SAME(DNNL_MATH_STRICT, dnnl_fpmath_mode_strict);
    SAME(DNNL_MATH_TF32, dnnl_fpmath_mode_tf32);
    SAME(DNNL_SUMS_STRICT, dnnl_accumulation_mode_strict);
    SAME(DNNL_SUMS_RELAXED, dnnl_accumulation_mode_relaxed);
    SAME(DNNL_SCRATCHPAD_USER, dnnl_scratchpad_mode_user);
    SAME(DNNL_FORWARD_INFERENCE, dnnl_forward_inference);
    SAME(DNNL_DIRECT, dnnl_convolution_direct);
    SAME(DNNL_LINEAR, dnnl_eltwise_linear);
    SAME(DNNL_ADD, dnnl_binary_add);
    SAME(DNNL_QUERY_IMPLEMENTATION, dnnl_query_impl_info_str);
    SAME(DNNL_QUERY_SCRATCHPAD, dnnl_query_scratchpad_md);
    same("DNNL_SRC", ours::DNNL_SRC, DNNL_ARG_SRC_0);
    same("DNNL_SRC_1", ours::DNNL_SRC_1, DNNL_ARG_SRC_1);
    same("DNNL_DST", ours::DNNL_DST, DNNL_ARG_DST_0);
    same("DNNL_WEIGHTS", ours::DNNL_WEIGHTS, DNNL_ARG_WEIGHTS_0);
    same("DNNL_BIAS", ours::DNNL_BIAS, DNNL_ARG_BIAS);
    same("DNNL_SCRATCHPAD", ours::DNNL_SCRATCHPAD, DNNL_ARG_SCRATCHPAD);
    same("DNNL_DIFF_SRC", ours::DNNL_DIFF_SRC, DNNL_ARG_DIFF_SRC_0);
    same("DNNL_DIFF_DST", ours::DNNL_DIFF_DST, DNNL_ARG_DIFF_DST_0);
    same("DNNL_DIFF_WEIGHTS", ours::DNNL_DIFF_WEIGHTS, DNNL_ARG_DIFF_WEIGHTS_0);
    same("operands of post operations", DNNL_OF_POST_OPERATION(2), DNNL_ARG_ATTR_MULTIPLE_POST_OP(2));
    SAME_SIZE(dnnl_dims, ::dnnl_dims_t);
    SAME_SIZE(dnnl_argument, ::dnnl_exec_arg_t);
    SAME_PLACE(dnnl_argument, argument, ::dnnl_exec_arg_t, arg);
    SAME_PLACE(dnnl_argument, memory, ::dnnl_exec_arg_t, memory);
    SAME_PLACE(dnnl_version_numbers, hash, ::dnnl_version_t, hash);
    SAME_PLACE(dnnl_version_numbers, cpu_runtime, ::dnnl_version_t, cpu_runtime);
    SAME_PLACE(dnnl_version_numbers, gpu_runtime, ::dnnl_version_t, gpu_runtime);
    DNNL_VERSION_FUNCTION(SIGNATURE)
    DNNL_FUNCTIONS(SIGNATURE)
    return conclude();
}
#else
int main()
{
    lacks("dnnl_ze.h");
    return conclude();
}
#endif
