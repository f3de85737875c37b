"""Functions that the module defines, compiled when a call of them is.

A callee runs as a program of its own, with its own registers, on the lanes that call. Its parameters, result and local
variables lie behind its caller's in a thread's local memory, as on a stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx.kinds import Mask
from zluda_rr.emulate.ptx.layout import Layout, lay_out
from zluda_rr.emulate.ptx.machine import Machine
from zluda_rr.emulate.ptx.problem import Unsupported
from zluda_rr.ptx import Body, Function, Module, Param, linearise


@dataclass(frozen=True, slots=True)
class Callee:
    """A compiled function. Parameters and results are (offset in local memory, bytes); `run` executes it."""

    parameters: tuple[tuple[int, int], ...]
    results: tuple[tuple[int, int], ...]
    run: Callable[[Machine, Mask | None], None]


Start = Callable[[Body, Layout, "Functions"], Callable[[Machine, Mask | None], None]]


@dataclass(slots=True)
class Functions:
    """The functions of a module; `start` compiles a body to something that runs on some lanes of a machine.

    `local_bytes` is what all of them need of a thread's local memory, once everything is compiled.
    """

    module: Module | None
    memory: AddressSpace
    start: Start
    local_bytes: int = 0
    _open: list[str] = field(default_factory=list)

    def callee(self, name: str, local_base: int) -> Callee | None:
        """The function, compiled, its local memory from `local_base` on; None where the module has no body of it."""
        function = self.module.function(name) if self.module is not None else None
        if function is None or function.body is None:
            return None
        if function.kind == "entry" or name in self._open:
            raise Unsupported(f"recursion of {name}" if name in self._open else f"a call of the kernel {name}")
        body = linearise(function, self.module)
        _check(self.module, function, body)
        layout = lay_out(body, self.memory, local_base=local_base)
        self.local_bytes = max(self.local_bytes, layout.local_bytes)
        self._open.append(name)
        try:
            run = self.start(body, layout, self)
        finally:
            self._open.pop()
        return Callee(_places(function.params, layout), _places(function.returns, layout), run)


def _places(params: tuple[Param, ...], layout: Layout) -> tuple[tuple[int, int], ...]:
    return tuple((layout.addresses[param.name][1], param.nbytes) for param in params)


def _check(module: Module | None, function: Function, body: Body) -> None:
    """What a callee here may not do: leave its thread, wait for its block, have shared memory of its own."""
    outer = () if module is None else module.variables
    if any(variable.space.startswith("shared") and variable not in outer for variable in body.variables.values()):
        raise Unsupported(f"{function.name} has shared memory of its own")
    for statement in body.statements:
        if statement.opcode in ("exit", "bar", "barrier") and "warp" not in statement.modifiers:
            raise Unsupported(f"{statement.spelling} in the function {function.name}")
