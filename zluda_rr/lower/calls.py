"""`call` of a linked body with its `.param` variables.

nvcc's form: `{ .param .b32 p; st.param.b32 [p+0], %r; … call.uni (r), name, (p, …); ld.param.b32 %r, [r+0]; }`.
Only scalars are passed (the body ABI), so a parameter variable is one value.
"""

from __future__ import annotations

from zluda_rr.lower.emitter import Emitter
from zluda_rr.lower.scalar import width
from zluda_rr.ptx import Address, Group, Operand, Register, Statement, Symbol


def _parameter(e: Emitter, operand: Operand) -> str:
    """Name of the `.param` variable of the function body that `[name+0]` addresses, or ""."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        return ""
    variable = e.body.variables.get(operand.base.name)
    return operand.base.name if variable is not None and variable.space == "param" else ""


def store_argument(e: Emitter, s: Statement) -> bool:
    """Whether `s` was a store to a call's parameter variable (and has been emitted)."""
    address, source = s.operands
    name = _parameter(e, address)
    if not name or "param" not in s.modifiers:
        return False
    assert isinstance(address, Address)
    if address.offset or (not isinstance(source, Register) and "v2" in s.modifiers):
        raise e.refuse(s, "only scalar arguments")
    bits = width(e.body.variables[name].type)
    e.line(f"store i{bits} {e.integer(source, bits)}, ptr addrspace(5) {e.slot(name, bits)}")
    return True


def load_result(e: Emitter, s: Statement) -> bool:
    """Whether `s` was a load of a call's result (and has been emitted)."""
    target, address = s.operands
    name = _parameter(e, address)
    if not name or "param" not in s.modifiers:
        return False
    bits = width(e.body.variables[name].type)
    value = e.op(f"load i{bits}, ptr addrspace(5) {e.slot(name, bits)}")
    e.set(target, value, f"b{bits}")
    return True


def call(e: Emitter, s: Statement) -> None:
    """call{.uni} (result), name, (arguments)."""
    lists = [operand.elements for operand in s.operands if isinstance(operand, Group)]
    named = [operand for operand in s.operands if not isinstance(operand, Group)]
    results = lists.pop(0) if isinstance(s.operands[0], Group) else ()
    arguments = lists.pop(0) if lists else ()
    callee = named[0]
    if not isinstance(callee, Symbol) or lists or len(named) > 1 or len(results) > 1:
        raise e.refuse(s, "only direct calls with at most one result")
    passed = [_argument(e, s, argument) for argument in arguments]
    if not results:
        e.call("void", callee.name, *passed)
        return
    bits = _bits(e, s, results[0])
    value = e.call(f"i{bits}", callee.name, *passed)
    if isinstance(results[0], Register):
        e.set(results[0], value, f"b{bits}")
    elif isinstance(results[0], Symbol):
        e.line(f"store i{bits} {value}, ptr addrspace(5) {e.slot(results[0].name, bits)}")


def _bits(e: Emitter, s: Statement, operand: Operand) -> int:
    if isinstance(operand, Register):
        return e.register_width(operand.name)
    if isinstance(operand, Symbol) and operand.name in e.body.variables:
        return width(e.body.variables[operand.name].type)
    raise e.refuse(s, f"argument {operand}")


def _argument(e: Emitter, s: Statement, operand: Operand) -> tuple[str, str]:
    bits = _bits(e, s, operand)
    if isinstance(operand, Register):
        return f"i{bits}", e.read(operand.name)
    assert isinstance(operand, Symbol)
    return f"i{bits}", e.op(f"load i{bits}, ptr addrspace(5) {e.slot(operand.name, bits)}")
