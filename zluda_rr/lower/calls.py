"""Calls with their `.param` variables: of functions that the module defines, and of linked bodies.

nvcc's form: `{ .param .b32 p; st.param.b32 [p+0], %r; … call.uni (r), name, (p, …); ld.param.b32 %r, [r+0]; }`.
Only scalars are passed, so a parameter variable is one value. A function of the module becomes an LLVM function whose
parameters and result are such values too; LLVM inlines it.
"""

from __future__ import annotations

from collections.abc import Sequence

from zluda_rr.lower.emitter import Emitter
from zluda_rr.lower.problem import LoweringError, unsupported
from zluda_rr.lower.scalar import is_scalar, width
from zluda_rr.ptx import Address, Body, Group, Module, Operand, Param, Register, Statement, Symbol, linearise

RESERVED = ("zrt_", "zrr.")
"""What the lowering's own functions are called."""


def _parameter(e: Emitter, operand: Operand) -> tuple[str, int] | None:
    """Slot and width of the call parameter that `[name]` addresses, or of a function's own parameter or result."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        return None
    name = operand.base.name
    variable = e.body.variables.get(name)
    if variable is not None and variable.space == "param":
        if variable.count != 1:
            return name, 0
        return name, width(variable.type)
    if e.body.function.kind == "func":
        for param in (*e.body.function.params, *e.body.function.returns):
            if param.name == name:
                return name, _scalar_bits(param)
    return None


def _scalar_bits(param: Param) -> int:
    """Width of a scalar parameter, 0 for an array."""
    return width(param.type) if param.count == 1 and is_scalar(param.type) else 0


def _access(e: Emitter, s: Statement, operand: Operand) -> tuple[str, int] | None:
    """The parameter that a ld.param or st.param accesses as a whole; None where it is none of a call."""
    found = _parameter(e, operand)
    if found is None or "param" not in s.modifiers:
        return None
    name, bits = found
    assert isinstance(operand, Address)
    assert isinstance(operand.base, Symbol)
    kinds = [kind for kind in s.modifiers if is_scalar(kind)]
    plain = len(s.modifiers) == 2 and len(kinds) == 1
    if not plain or operand.offset or operand.base.offset or width(kinds[0]) != bits:
        raise e.refuse(s, "only whole scalars of a call")
    return name, bits


def store_argument(e: Emitter, s: Statement) -> bool:
    """Whether `s` was a store to a call's parameter or a function's result (and has been emitted)."""
    address, source = s.operands
    found = _access(e, s, address)
    if found is None:
        return False
    name, bits = found
    e.line(f"store i{bits} {e.integer(source, bits)}, ptr addrspace(5) {e.slot(name, bits)}")
    return True


def load_result(e: Emitter, s: Statement) -> bool:
    """Whether `s` was a load of a call's result or a function's parameter (and has been emitted)."""
    target, address = s.operands
    found = _access(e, s, address)
    if found is None:
        return False
    name, bits = found
    kind = next(kind for kind in s.modifiers if is_scalar(kind))
    value = e.op(f"load i{bits}, ptr addrspace(5) {e.slot(name, bits)}")
    e.set(target, value, kind if kind[0] in "su" else f"b{bits}")
    return True


def call(e: Emitter, s: Statement) -> None:
    """call{.uni} (result), name, (arguments)."""
    results, callee, arguments = _parts(e, s)
    passed = [_argument(e, s, argument) for argument in arguments]
    if callee in e.settings.functions:
        _fits(e, s, callee, [kind for kind, _ in passed], [f"i{_bits(e, s, result)}" for result in results])
    name = e.settings.function_names.get(callee, callee)
    if not results:
        e.call("void", name, *passed, local=callee in e.settings.functions)
        return
    bits = _bits(e, s, results[0])
    value = e.call(f"i{bits}", name, *passed, local=callee in e.settings.functions)
    if isinstance(results[0], Register):
        e.set(results[0], value, f"b{bits}")
    elif isinstance(results[0], Symbol):
        e.line(f"store i{bits} {value}, ptr addrspace(5) {e.slot(results[0].name, bits)}")


def _fits(e: Emitter, s: Statement, callee: str, passed: list[str], results: list[str]) -> None:
    """Refuse a call with other types than the function has."""
    function = e.settings.functions[callee]
    takes, gives = ([f"i{_scalar_bits(p)}" for p in part] for part in (function.params, function.returns))
    if passed != takes or results != gives:
        if "i0" in (*takes, *gives) or len(gives) > 1:
            return  # the function itself is refused
        raise e.refuse(s, f"{callee} takes other parameters")


def _parts(e: Emitter, s: Statement) -> tuple[Sequence[Operand], str, Sequence[Operand]]:
    """Results, callee and arguments of a direct call."""
    lists = [operand.elements for operand in s.operands if isinstance(operand, Group)]
    named = [operand for operand in s.operands if not isinstance(operand, Group)]
    results = lists.pop(0) if isinstance(s.operands[0], Group) else ()
    arguments = lists.pop(0) if lists else ()
    callee = named[0]
    if not isinstance(callee, Symbol) or callee.name in e.body.labels or lists or len(named) > 1 or len(results) > 1:
        raise e.refuse(s, "only direct calls with at most one result")
    if set(s.modifiers) - {"uni"} or callee.name.startswith(RESERVED):
        raise e.refuse(s, callee.name)
    return results, callee.name, arguments


def _bits(e: Emitter, s: Statement, operand: Operand) -> int:
    if isinstance(operand, Register) and operand.name in e.body.registers:
        return e.register_width(operand.name)
    if isinstance(operand, Symbol) and operand.name in e.body.variables:
        variable = e.body.variables[operand.name]
        if variable.space == "param" and variable.count == 1 and is_scalar(variable.type):
            return width(variable.type)
    raise e.refuse(s, "only scalar arguments")


def _argument(e: Emitter, s: Statement, operand: Operand) -> tuple[str, str]:
    bits = _bits(e, s, operand)
    if isinstance(operand, Register):
        return f"i{bits}", e.read(operand.name)
    assert isinstance(operand, Symbol)
    return f"i{bits}", e.op(f"load i{bits}, ptr addrspace(5) {e.slot(operand.name, bits)}")


# ------------------------------------------------------------------------------------------- functions of the module


def reachable(module: Module, entry: Body) -> list[Body]:
    """The entry and every function with a body that it calls, directly or not; LoweringError for recursion."""
    bodies: dict[str, Body] = {}
    _visit(module, entry, bodies, ())
    return list(bodies.values())


def _visit(module: Module, body: Body, bodies: dict[str, Body], above: tuple[str, ...]) -> None:
    bodies[body.function.name] = body
    path = (*above, body.function.name)
    for statement in body.statements:
        for name in _called(module, statement):
            if name in path:
                raise unsupported(module.filename, statement, f"recursion of {name}")
            if name not in bodies:
                function = module.function(name)
                assert function is not None
                _visit(module, linearise(function, module), bodies, path)


def _called(module: Module, statement: Statement) -> list[str]:
    """The function with a body that the statement calls, if any."""
    if statement.opcode != "call":
        return []
    names = [operand.name for operand in statement.operands if isinstance(operand, Symbol)]
    functions = [module.function(name) for name in names[:1]]
    defined = [function.name for function in functions if function is not None and function.body is not None]
    if any(function is not None and function.kind == "entry" for function in functions):
        raise unsupported(module.filename, statement, "a kernel")
    return defined


def _result(e: Emitter) -> Param | None:
    returns = e.body.function.returns
    return returns[0] if returns else None


def header(e: Emitter) -> str:
    """The first line of a function of the module; LoweringError when it takes or gives anything but scalars."""
    function = e.body.function
    if len(function.returns) > 1 or not all(map(_scalar_bits, (*function.params, *function.returns))):
        raise LoweringError(
            f"{e.settings.filename}:{function.span.line}: function {function.name} is not in the lowered PTX subset "
            "(only scalar parameters and at most one scalar result)"
        )
    result = _result(e)
    kind = "void" if result is None else f"i{_scalar_bits(result)}"
    params = ", ".join(f"i{_scalar_bits(p)} {e.params[p.name]}" for p in function.params)
    return f"define internal {kind} @{e.settings.function_names[function.name]}({params}) #0 {{"


def incoming(e: Emitter) -> list[str]:
    """Stores of a function's parameters to their slots; zero for its result, and for the variables of calls in it."""
    given = {} if e.body.function.kind == "entry" else e.params
    return [
        f"  store i{bits} {given.get(name, '0')}, ptr addrspace(5) {e.slot(name, bits)}"
        for name, bits in sorted(e.slots.items())
        if name not in e.body.registers
    ]


def return_text(e: Emitter) -> str:
    """The terminator of a `ret`."""
    result = _result(e)
    if result is None or e.body.function.kind == "entry":
        return "ret void"
    bits = _scalar_bits(result)
    return f"ret i{bits} {e.op(f'load i{bits}, ptr addrspace(5) {e.slot(result.name, bits)}')}"
