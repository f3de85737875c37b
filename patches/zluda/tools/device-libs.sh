#!/bin/bash
# ockl.bc and ocml.bc, the device libraries that ZLUDA links, from source with the clang of one LLVM.
# Needed only without ROCm and without git-lfs, or for an LLVM other than ZLUDA's.
#
#   device-libs.sh LLVM SOURCE OUTPUT
#     LLVM    an LLVM installation, as /usr/lib/llvm-22
#     SOURCE  amd/device-libs of https://github.com/ROCm/llvm-project
#     OUTPUT  folder for ockl.bc and ocml.bc
set -euo pipefail
[ $# -eq 3 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
llvm=$1/bin source=$2 output=$3

flags=(-x cl -Xclang -finclude-default-header -cl-std=CL2.0 -target amdgcn-amd-amdhsa -nogpulib -nogpuinc -emit-llvm -c
    -O2 -fvisibility=hidden -w -Xclang -fdenormal-fp-math=dynamic -Xclang -mcode-object-version=none
    -Xclang -fexperimental-strict-floating-point)
for feature in cube-insts lerp-inst qsad-insts sad-insts; do
    flags+=(-Xclang -target-feature -Xclang "+$feature")
done
for folder in irif/inc oclc/inc ockl/inc ocml/inc ocml/src; do
    flags+=("-I$source/$folder")
done

for library in ockl ocml; do
    mkdir -p "$output/$library"
    for file in "$source/$library"/src/*.cl; do
        extra=()
        case $(basename "$file") in
            *native_rcpH* | *native_rsqrtH*) extra=(-freciprocal-math -fapprox-func) ;;
            *native_logF* | *native_expF*) extra=(-fapprox-func) ;;
        esac
        "$llvm/clang" "${flags[@]}" "${extra[@]}" "$file" -o "$output/$library/$(basename "$file" .cl).bc"
    done
    for file in "$source/$library"/src/*.ll; do
        [ -e "$file" ] && "$llvm/llvm-as" "$file" -o "$output/$library/$(basename "$file").bc"
    done
    "$llvm/llvm-link" "$output/$library"/*.bc -o "$output/$library.link.bc"
    "$llvm/opt" -passes=strip "$output/$library.link.bc" -o "$output/$library.bc"
    rm -r "$output/$library.link.bc" "${output:?}/$library"
done
ls -l "$output/ockl.bc" "$output/ocml.bc"
