"""Emulator of gfx1201 machine code: decodes linked code objects and executes their kernels, wave32."""

from zluda_rr.emulate.gfx12.decode import DecodeError, decode_program
from zluda_rr.emulate.gfx12.elf import CodeObject, CodeObjectError, Kernel, load_code_object
from zluda_rr.emulate.gfx12.image_formats import FORMATS, ImageFormat, Numbers
from zluda_rr.emulate.gfx12.image_resource import PITCH_ALIGNMENT, Addressing, Sampling, image_object
from zluda_rr.emulate.gfx12.inst import Inst
from zluda_rr.emulate.gfx12.launch import (
    BLOCK_LIMIT,
    Emulator,
    Placement,
    code_image,
    kernel_arguments,
    run_kernel,
)
from zluda_rr.emulate.gfx12.machine import EmulationError, ProgramFault
from zluda_rr.emulate.gfx12.stats import CLASSES, Stats, classify

__all__ = [
    "BLOCK_LIMIT",
    "CLASSES",
    "FORMATS",
    "PITCH_ALIGNMENT",
    "Addressing",
    "CodeObject",
    "CodeObjectError",
    "DecodeError",
    "EmulationError",
    "Emulator",
    "ImageFormat",
    "Inst",
    "Kernel",
    "Numbers",
    "Placement",
    "ProgramFault",
    "Sampling",
    "Stats",
    "classify",
    "code_image",
    "decode_program",
    "image_object",
    "kernel_arguments",
    "load_code_object",
    "run_kernel",
]
