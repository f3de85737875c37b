"""A kernel with the functions of its module that it calls, compiled; `rewrite --target nvptx` makes such modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import program as programs
from zluda_rr.emulate.ptx.calls import callees
from zluda_rr.emulate.ptx.compiler import Defined
from zluda_rr.emulate.ptx.layout import Layout, lay_out
from zluda_rr.emulate.ptx.problem import OracleError
from zluda_rr.emulate.ptx.program import Program, compile_body, place
from zluda_rr.errors import listed
from zluda_rr.ptx import Body, Function, Module, Statement, linearise, no_collection


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
        bodies = (self.program, *self.functions.values())
        return all(space != "global" for p in bodies for space, _ in p.layout.addresses.values())

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
    layout, defined = lay_out(body, memory), _defined(source if isinstance(source, Module) else None)
    with no_collection():
        program = compile_body(body, layout, capture, defined)
        functions = _functions(source, body, body.statements, layout, memory) if isinstance(source, Module) else {}
    linked = Linked(program, functions)
    dynamic = [name for name, declared in body.variables.items() if declared.count is None]
    if dynamic and linked.shared_bytes > program.layout.shared_bytes:
        raise OracleError(
            f"{body.function.name}: {dynamic[0]} has no size, and a function has shared variables of its own"
        )
    return linked


def refused_statements(module: Module, entry: str) -> Mapping[int, OracleError]:
    """Every statement of a kernel that has no semantics: its number, and what `link` would say of it."""
    body, memory = _body_of(module, entry), AddressSpace(1 << 24)
    layout = lay_out(body, memory)
    found = programs.refused_statements(body, layout, _defined(module))
    for statement in body.statements:
        if statement.opcode == "call" and statement.number not in found:
            try:
                _functions(module, body, (statement,), layout, memory)
            except OracleError as problem:
                found[statement.number] = problem
    return found


def _defined(module: Module | None) -> Defined:
    """The functions and kernels of a module that have a body, by name."""
    found = {} if module is None else {f.name: f for f in module.functions if f.body is not None}

    def defined(name: str) -> Function | None:
        return found.get(name)

    return defined


def _functions(
    module: Module, body: Body, statements: Iterable[Statement], layout: Layout, memory: AddressSpace
) -> dict[str, Program]:
    """The functions that statements of a kernel call, compiled; `layout` is the kernel's."""
    defined, layouts = _defined(module), [_of_module(layout, module)]
    functions: dict[str, Program] = {}
    for name, own in _reached(module, body.function.name, statements).items():
        layouts.append(lay_out(own, memory, _behind(layouts)))
        functions[name] = compile_body(own, layouts[-1], frozenset(), defined)
    return functions


def _of_module(layout: Layout, module: Module) -> Layout:
    """What a kernel's functions see of its layout: no variable of the kernel's own."""
    names = {variable.name for variable in module.variables}
    addresses = {name: address for name, address in layout.addresses.items() if name in names}
    return replace(layout, addresses=MappingProxyType(addresses))


def _behind(layouts: list[Layout]) -> Layout:
    """A layout with the ends of all of them: the next frame lies behind every possible caller's."""
    first = layouts[0]
    local, shared = (max(getattr(layout, f"{space}_bytes") for layout in layouts) for space in ("local", "shared"))
    return replace(first, shared_bytes=shared, local_bytes=local)


def _reached(module: Module, entry: str, statements: Iterable[Statement]) -> dict[str, Body]:
    """Functions with a body that the statements reach. OracleError where one calls itself or ends its thread."""
    defined, found = _defined(module), dict[str, Body]()

    def visit(statements: Iterable[Statement], path: tuple[str, ...]) -> None:
        for statement, name in callees(statements):
            function = defined(name)
            if function is None or function.kind == "entry":  # `calls.call` refuses a kernel
                continue
            if name in path:
                raise OracleError(f"{place(statement)}: {name} calls itself; the oracle has no stack for that")
            if name not in found:
                found[name] = linearise(function, module)
                _no_exit(found[name])
                visit(found[name].statements, (*path, name))

    visit(statements, (entry,))
    return found


def _no_exit(body: Body) -> None:
    for statement in body.statements:
        if statement.opcode == "exit":
            raise OracleError(
                f"{place(statement)}: {body.function.name} ends its thread; the oracle only returns from functions"
            )


def _body_of(module: Module, entry: str) -> Body:
    function = module.function(entry)
    if function is None or function.body is None:
        names = listed(item.name for item in module.entries)
        raise OracleError(f"{module.filename}: no kernel {entry}; entries: {names}")
    return linearise(function, module)
