"""The code object loader: kernels, descriptors, metadata, segments, and what it refuses."""

from __future__ import annotations

import pytest

from tests.emulate.gfx12.compiled import compiled
from zluda_rr.emulate.gfx12.elf import CodeObject, CodeObjectError, load_code_object
from zluda_rr.errors import UserError
from zluda_rr.toolchain import assemble, compile_hip_kernel, kernel_resources


@pytest.fixture(scope="module")
def code_object() -> CodeObject:
    return load_code_object(compiled().code_object)


def test_metadata_agrees_with_the_assembly(code_object: CodeObject) -> None:
    for name, kernel in code_object.kernels.items():
        resources = kernel_resources(compiled().assembly, name)
        assert (kernel.vgprs, kernel.sgprs) == (resources.vgprs, resources.sgprs)
        assert (kernel.lds_bytes, kernel.scratch_bytes) == (resources.lds_bytes, resources.scratch_bytes)
        assert kernel.wavefront_size == 32
        assert kernel.descriptor.is_wave32


def test_arguments(code_object: CodeObject) -> None:
    args = [arg for arg in code_object.kernels["matrix"].args if not arg.is_hidden]
    assert [(arg.offset, arg.size) for arg in args] == [(0, 8), (8, 8), (16, 8), (24, 4)]
    assert [arg.value_kind for arg in args] == ["global_buffer"] * 3 + ["by_value"]


def test_hidden_arguments() -> None:
    source = """
    extern "C" __attribute__((global)) void k(int* p) {
      p[0] = __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_grid_size_x();
    }"""
    (kernel,) = load_code_object(compile_hip_kernel(source).code_object).kernels.values()
    hidden = {arg.value_kind: arg.offset for arg in kernel.args if arg.is_hidden}
    assert hidden["hidden_block_count_x"] == 8
    assert hidden["hidden_group_size_x"] == 20
    assert kernel.kernarg_size >= 22


def test_descriptor(code_object: CodeObject) -> None:
    matrix, lanes = code_object.kernels["matrix"].descriptor, code_object.kernels["lanes"].descriptor
    assert matrix.user_sgprs == (("kernarg_segment_ptr", 2),)
    assert matrix.user_sgpr_count == 2
    assert matrix.workgroup_id == (True, True, False)
    assert matrix.workitem_id_dimensions == 1
    assert (matrix.float_denorm_mode_32, matrix.float_denorm_mode_16_64) == (3, 3)
    assert (matrix.float_round_mode_32, matrix.float_round_mode_16_64, matrix.mode) == (0, 0, 0xF0)
    assert not matrix.fp16_overflow
    assert not matrix.has_private_segment
    assert lanes.has_private_segment
    assert code_object.kernels["lanes"].scratch_bytes >= 256
    assert code_object.kernels["matrix"].lds_bytes == 1024


def test_mode_follows_the_descriptor() -> None:
    source = """
    extern "C" __attribute__((global)) void k(float* p) { p[0] *= 2.0f; }"""
    compiled_flush = compile_hip_kernel(source, flags=["-fgpu-flush-denormals-to-zero"])
    (kernel,) = load_code_object(compiled_flush.code_object).kernels.values()
    assert kernel.descriptor.float_denorm_mode_32 == 0
    assert kernel.descriptor.float_denorm_mode_16_64 == 3


def test_segments_hold_code_and_descriptors(code_object: CodeObject) -> None:
    for kernel in code_object.kernels.values():
        (segment,) = [s for s in code_object.segments if s.address <= kernel.entry < s.address + len(s.data)]
        assert segment.executable
        assert not segment.writable
        assert code_object.symbols[kernel.name] == kernel.entry
        assert code_object.symbols[f"{kernel.name}.kd"] % 64 == 0
    with pytest.raises(CodeObjectError, match="no segment"):
        code_object.read(1 << 40, 4)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "ELF"), (b"\x7fELF" + bytes(100), "ELF"), (b"not an object", "ELF"), (bytes(4096), "ELF")],
)
def test_other_bytes_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(CodeObjectError, match=message):
        load_code_object(data)
    assert issubclass(CodeObjectError, UserError)


def test_unlinked_and_truncated_objects_are_refused() -> None:
    with pytest.raises(CodeObjectError, match="link it"):
        load_code_object(assemble(compiled().assembly))
    data = compiled().code_object
    for size in range(0, len(data), 97):
        with pytest.raises(CodeObjectError):
            load_code_object(data[:size])


def test_another_target_is_refused() -> None:
    data = bytearray(compiled().code_object)
    data[48] = 0x41  # e_flags: gfx1100
    with pytest.raises(CodeObjectError, match="gfx1201"):
        load_code_object(bytes(data))
