//! Names as compilers and libraries write them, beside what people see.

use super::*;

#[track_caller]
fn check(name: &str, expected: &str) {
    assert_eq!(short_name(name), expected);
}

#[test]
fn elementwise_kernels_are_named_by_their_operation() {
    let add = "void at::native::vectorized_elementwise_kernel<4, \
               at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, \
               at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)";
    check(add, "elementwise add (vec4)");
    check(&add.replace("float", "c10::BFloat16"), "elementwise add bf16 (vec4)");
    check(
        "void at::native::elementwise_kernel<128, 2, \
         at::native::gpu_kernel_impl_nocast<\
         at::native::BinaryFunctor<float, float, float, \
         at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, \
         at::native::BinaryFunctor<float, float, float, \
         at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>(int, \
         at::native::gpu_kernel_impl_nocast<x>(y)::{lambda(int)#1})",
        "elementwise mul (strided)",
    );
    check(
        "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, \
         float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int)",
        "elementwise mul scalar (vec4)",
    );
    check(
        "void at::native::vectorized_elementwise_kernel<4, at::native::sin_kernel_cuda(\
         at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda()#2}::operator()() \
         const::{lambda(float)#1}, std::array<char*, 2ul> >(int)",
        "elementwise sin (vec4)",
    );
}

#[test]
fn other_kernels_that_take_their_operation_are_named_by_it() {
    check(
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<\
         float, float, float, float>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float, \
         at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4>)",
        "reduce mean",
    );
    check(
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous \
         namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::\
         TernaryOpScalarFunctor<float, 2, 2, 0>, at::native::LerpFunctor<float>, float>(int)",
        "foreach lerp (2 lists)",
    );
    check(
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(\
         cutlass_80_simt_sgemm_128x64_8x5_nn_align1::Params)",
        "cutlass_80_simt_sgemm_128x64_8x5_nn_align1",
    );
}

#[test]
fn functions_lose_namespaces_and_parameters() {
    check(
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, true>(\
         float*, float const*, int, int, int, bool const*, int, bool)",
        "softmax_warp_forward<f32, 10, true, true>",
    );
    check(
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, \
         __nv_bfloat16, float, false, cublasGemvParamsEx<int> >(cublasGemvParamsEx<int>)",
        "gemvx::kernel<i32, bf16, f32, false, cublasGemvParamsEx>",
    );
    check(
        "std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(int const&)",
        "vector<i32, allocator>::_M_realloc_insert<i32>",
    );
    check(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    );
    check("ns::Key::operator<(ns::Key const&) const [clone .isra.0] and more", "Key::operator<");
}

#[test]
fn mangled_names_are_demangled() {
    check("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write::h0123456789abcdef");
    check("_Znot_a_name", "_Znot_a_name");
    let bomb = format!("_Z1f{}", "S_".repeat(30_000));
    check(&bomb, &bomb);
}

#[test]
fn libraries_of_kernels_keep_operation_types_and_tile() {
    check(
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x128x8_stage3_warpsize1x4x1_ffma_aligna4_\
         alignc4_execute_kernel__5x_cublas",
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n 64x128x8",
    );
    check(
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x96x128_MI16x16x1_SN_LDSB1_AFC1_AG0",
        "Cijk_Alik_Bljk_BBS 64x96x128",
    );
}

#[test]
fn python_frames_begin_at_the_package() {
    check(
        "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py(1773): _call_impl",
        "torch/nn/modules/module.py(1773): _call_impl",
    );
    check(
        "/usr/local/lib/python3.12/multiprocessing/connection.py(430): <listcomp>",
        "multiprocessing/connection.py(430): <listcomp>",
    );
    let own = "/home/somebody/projects/model/train.py(12): forward of a module";
    check(own, own);
}

#[test]
fn what_is_readable_or_no_function_stays() {
    for name in [
        "",
        "aten::add_",
        "void f<int>(int)",
        "aten::_scaled_dot_product_cudnn_attention_backward_with_mask",
        "triton_poi_fused__to_copy__unsafe_view_add_bmm_cat_cos_mul_neg_sin_slice_3",
        "6 × 2 kernels (Memset (Device), Kernel2) became one kernel (see --kernels)",
        "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter_in_place",
        "a name with a (bracket that never closes <and another one, in 漢字漢字",
        "operator<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<",
    ] {
        check(name, name);
    }
}

#[test]
fn names_that_would_read_the_same_stay_whole() {
    let [one, two] = ["float*", "int*"].map(|of| {
        format!("void at::native::(anonymous namespace)::gather_a_lot_of_rows<1>({of}, long, long)")
    });
    let names = [one.as_str(), two.as_str(), one.as_str()];
    assert_eq!(short_names(&names), names);
    assert_eq!(short_names(&[&one, &one]), ["gather_a_lot_of_rows<1>"; 2]);
}
