// Put before every source: builtins that clang 21 lacks, as the LLVM operations they are in clang 22.
#pragma once

#if !__has_builtin(__builtin_elementwise_minimumnum)
typedef _Float16 zrr_half2 __attribute__((ext_vector_type(2)));
extern "C" __attribute__((device, const)) zrr_half2 zrr_minimumnum(zrr_half2, zrr_half2) __asm("llvm.minimumnum.v2f16");
extern "C" __attribute__((device, const)) zrr_half2 zrr_maximumnum(zrr_half2, zrr_half2) __asm("llvm.maximumnum.v2f16");
#define __builtin_elementwise_minimumnum zrr_minimumnum
#define __builtin_elementwise_maximumnum zrr_maximumnum
#endif
