"""Emulator of gfx1201 machine code: decodes linked code objects and executes their kernels, wave32."""

from zluda_rr.emulate.gfx12.decode import DecodeError, decode_program
from zluda_rr.emulate.gfx12.elf import CodeObject, CodeObjectError, Kernel, load_code_object
from zluda_rr.emulate.gfx12.image_resource import PITCH_ALIGNMENT, ImageFormat, image_object
from zluda_rr.emulate.gfx12.inst import Inst
from zluda_rr.emulate.gfx12.launch import BLOCK_LIMIT, Emulator, run_kernel
from zluda_rr.emulate.gfx12.machine import EmulationError, ProgramFault
from zluda_rr.emulate.gfx12.stats import CLASSES, Stats, classify

__all__ = [
    "BLOCK_LIMIT",
    "CLASSES",
    "PITCH_ALIGNMENT",
    "CodeObject",
    "CodeObjectError",
    "DecodeError",
    "EmulationError",
    "Emulator",
    "ImageFormat",
    "Inst",
    "Kernel",
    "ProgramFault",
    "Stats",
    "classify",
    "decode_program",
    "image_object",
    "load_code_object",
    "run_kernel",
]
