"""A kernel with the functions of its module that it calls, compiled; `rewrite --target nvptx` makes such modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx.calls import callees
from zluda_rr.emulate.ptx.layout import Layout, lay_out
from zluda_rr.emulate.ptx.problem import OracleError
from zluda_rr.emulate.ptx.program import Program, compile_body
from zluda_rr.ptx import Body, Module, linearise, no_collection


@dataclass(frozen=True, slots=True)
class Linked:
    """What `run_entry` executes. A thread's local memory holds one frame per function, behind those of its callers."""

    program: Program
    functions: Mapping[str, Program]

    @property
    def shared_bytes(self) -> int:
        """Shared memory of all bodies."""
        return max(p.layout.shared_bytes for p in (self.program, *self.functions.values()))

    @property
    def movable(self) -> bool:
        """Whether it may run in another space: no module-scope variable lies in memory."""
        programs = (self.program, *self.functions.values())
        return all(space != "global" for p in programs for space, _ in p.layout.addresses.values())

    @property
    def local_bytes(self) -> int:
        """Local memory of a thread."""
        return max(p.layout.local_bytes for p in (self.program, *self.functions.values()))


def link(source: Module | Body, entry: str, memory: AddressSpace, capture: frozenset[int] = frozenset()) -> Linked:
    """Compile a kernel and every function of its module that it calls, directly or not.

    Module-scope variables are allocated in `memory`; a space in which they lie elsewhere needs another link.
    OracleError names a statement without semantics, a kernel that is not there, and a function that calls itself.
    """
    body = source if isinstance(source, Body) else _body_of(source, entry)
    with no_collection():
        program = compile_body(body, lay_out(body, memory), capture)
        if not isinstance(source, Module):
            return Linked(program, {})
        functions: dict[str, Program] = {}
        for name, own in _reached(source, entry, body).items():
            outer = _behind([program, *functions.values()])
            functions[name] = compile_body(own, lay_out(own, memory, outer), frozenset())
    linked = Linked(program, functions)
    dynamic = [name for name, declared in body.variables.items() if declared.count is None]
    if dynamic and linked.shared_bytes > program.layout.shared_bytes:
        raise OracleError(
            f"{body.function.name}: {dynamic[0]} has no size, and a function has shared variables of its own"
        )
    return linked


def _behind(programs: list[Program]) -> Layout:
    """A layout with the ends of all the programs: the next frame lies behind every possible caller's."""
    first = programs[0].layout
    local, shared = (max(getattr(p.layout, f"{space}_bytes") for p in programs) for space in ("local", "shared"))
    return Layout(first.addresses, first.param_bytes, shared, local)


def _reached(module: Module, entry: str, body: Body) -> dict[str, Body]:
    """Functions with a body that the entry reaches. OracleError where one calls itself or ends its thread."""
    found: dict[str, Body] = {}

    def visit(own: Body, path: tuple[str, ...]) -> None:
        for name in dict.fromkeys(callees(own.statements)):
            if name in path:
                raise OracleError(f"{module.filename}: {name} calls itself; the oracle has no stack for that")
            function = module.function(name)
            if function is None or function.body is None:
                continue
            if name not in found:
                found[name] = linearise(function, module)
                if any(statement.opcode == "exit" for statement in found[name].statements):
                    raise OracleError(
                        f"{module.filename}: {name} ends its thread; the oracle only returns from functions"
                    )
            visit(found[name], (*path, name))

    visit(body, (entry,))
    return found


def _body_of(module: Module, entry: str) -> Body:
    function = module.function(entry)
    if function is None or function.body is None:
        names = ", ".join(item.name for item in module.entries) or "none"
        raise OracleError(f"{module.filename}: no kernel {entry}; entries: {names}")
    return linearise(function, module)
