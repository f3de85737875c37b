#!/bin/bash
# zluda_ptx_impl.bc and zluda_ptx_impl_constrained.bc again from ptx/lib/zluda_ptx_impl.cpp, which the patches change.
# The steps are those of the comment at the head of that file.
#
#   ptx-impl.sh ZLUDA LLVM OCML HIP...
#     ZLUDA  the checkout
#     LLVM   the LLVM that ZLUDA is built with: ext/llvm-project/build, or /usr/lib/llvm-22 with the patch for it
#     OCML   ocml.bc: of ROCm (/opt/rocm/amdgcn/bitcode/ocml.bc), or as device-libs.sh makes it
#     HIP    folders with the HIP headers: /opt/rocm/include, or `include` of https://github.com/ROCm/HIP and
#            `hipamd/include` of https://github.com/ROCm/clr; hip/hip_version.h is made up where they have none
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
zluda=$1 llvm=$2 ocml=$(realpath "$3")
shift 3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
includes=() version=
for folder in "$@"; do
    includes+=("-I$(realpath "$folder")")
    [ ! -e "$folder/hip/hip_version.h" ] || version=there
done
if [ -z "$version" ]; then
    mkdir "$work/hip"
    printf '#define HIP_VERSION_%s\n' 'MAJOR 6' 'MINOR 4' 'PATCH 0' 'GITHASH "0"' 'BUILD_ID 0' 'BUILD_NAME ""' \
        >"$work/hip/hip_version.h"
    printf '#define HIP_VERSION 60400000\n#define __HIP_HAS_GET_PCH 0\n' >>"$work/hip/hip_version.h"
    includes=("-I$work" "${includes[@]}")
fi
wrapper=$("$llvm/bin/clang" -print-resource-dir)/include/__clang_hip_runtime_wrapper.h

build() { # name, further flags
    local name=$1
    shift
    "$llvm/bin/clang" "$@" -D__HIP_PLATFORM_AMD__ -D__AMDGCN_WAVEFRONT_SIZE=32 -DHIP_ENABLE_WARP_SYNC_BUILTINS -std=c++20 \
        -Xclang -fdenormal-fp-math=dynamic -w -x hip zluda_ptx_impl.cpp -nogpulib -nogpuinc "${includes[@]}" \
        -include "$wrapper" -O3 -mno-wavefrontsize64 -emit-llvm -c --offload-device-only --offload-arch=gfx1030 \
        -Xclang -mlink-bitcode-file -Xclang "$ocml" -o "$work/$name.bc"
    "$llvm/bin/llvm-dis" "$work/$name.bc" -o - |
        sed -E '/@llvm.used/d; /wchar_size/d; /llvm.module.flags/d; /__hip_cuid/d; s/optnone//g
            s/define hidden/define linkonce_odr/g; s/"target-cpu"="gfx1030"//g; s/"target-features"="[^"]+"//g' |
        "$llvm/bin/llvm-as" - -o "$name.bc"
}

cd "$zluda/ptx/lib"
build zluda_ptx_impl
build zluda_ptx_impl_constrained -ffp-model=strict -ffp-exception-behavior=ignore
ls -l zluda_ptx_impl.bc zluda_ptx_impl_constrained.bc
