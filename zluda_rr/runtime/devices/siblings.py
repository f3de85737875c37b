"""Code objects for the RX 9060 (gfx1200): the same instructions as gfx1201, under another name.

LLVM's AMDGPU guide lists both under `gfx12-generic` without restrictions; tests/runtime/test_siblings.py compiles for
both and compares every byte. The number of an architecture in `e_flags` is EF_AMDGPU_MACH of the same guide.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from zluda_rr.toolchain import TARGET_CPU

__all__ = ["ARCHITECTURES", "for_architecture"]

ARCHITECTURES: Mapping[str, int] = {"gfx1201": 0x4E, "gfx1200": 0x48}
_FLAGS_AT = 48  # Elf64_Ehdr.e_flags
_MACHINE_BITS = 0xFF


def for_architecture(code_object: bytes, architecture: str) -> bytes:
    """The code object, compiled for TARGET_CPU, as one of `architecture`. ValueError where it is for another."""
    if architecture == TARGET_CPU:
        return code_object
    (flags,) = struct.unpack_from("<I", code_object, _FLAGS_AT)
    if flags & _MACHINE_BITS != ARCHITECTURES[TARGET_CPU]:
        raise ValueError(f"code object for machine {flags & _MACHINE_BITS:#x}, not {TARGET_CPU}")
    changed = bytearray(code_object.replace(_target(TARGET_CPU), _target(architecture)))
    struct.pack_into("<I", changed, _FLAGS_AT, flags & ~_MACHINE_BITS | ARCHITECTURES[architecture])
    return bytes(changed)


def _target(architecture: str) -> bytes:
    """`amdhsa.target` in the metadata; both names have one length."""
    return f"amdgcn-amd-amdhsa--{architecture}".encode()
