"""The code object of the shipped module: every instruction decoded as LLVM wrote it, and printed back."""

from __future__ import annotations

import lzma

import pytest

from tests.emulate.gfx12.compiled import assembly_mnemonics
from tests.tools.gfx12_opcodes.assembler import assemble_chunks
from zluda_rr.emulate.gfx12.decode import decode_program
from zluda_rr.emulate.gfx12.dispatch import builder_of, operations
from zluda_rr.emulate.gfx12.elf import CodeObject, load_code_object
from zluda_rr.emulate.gfx12.inst import Inst
from zluda_rr.lower import CompiledKernel, compile_module
from zluda_rr.ptx import parse
from zluda_rr.resources import resource_dir


@pytest.fixture(scope="module")
def compiled() -> CompiledKernel:
    text = lzma.decompress((resource_dir("modules") / "enc0.ptx.xz").read_bytes()).decode()
    module = parse(text)
    (entry,) = module.entries
    return compile_module(module, entry.name)


@pytest.fixture(scope="module")
def code_object(compiled: CompiledKernel) -> CodeObject:
    return load_code_object(compiled.code_object)


@pytest.fixture(scope="module")
def program(code_object: CodeObject) -> dict[int, Inst]:
    return decode_program(code_object, code_object.kernels[next(iter(code_object.kernels))])


def test_mnemonics_are_those_llvm_wrote(compiled: CompiledKernel, program: dict[int, Inst]) -> None:
    got = [inst.mnemonic for inst in program.values()]
    assert len(got) > 10_000
    assert got == assembly_mnemonics(compiled.assembly)


def test_text_assembles_to_the_same_bytes(code_object: CodeObject, program: dict[int, Inst]) -> None:
    distinct = {code_object.read(inst.address, inst.size): inst for inst in program.values()}
    again = assemble_chunks(inst.text for inst in distinct.values())
    for (code, inst), got in zip(distinct.items(), again, strict=True):
        assert got is not None, inst.text
        assert got.code == code, inst.text


def test_every_instruction_has_an_executor(program: dict[int, Inst]) -> None:
    table = operations()
    for inst in program.values():
        if inst.pair is None:
            assert builder_of(table, inst) is not None
