"""What fusion asks about one kernel: values, readers, constants, and where all lanes of a warp are together."""

from __future__ import annotations

from zluda_rr.analysis import Values
from zluda_rr.ptx import (
    Block,
    Body,
    ControlFlow,
    DefUse,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    Register,
    Statement,
    Symbol,
    linearise,
    type_bytes,
)

from .fusion_scopes import Scopes, flag_alive
from .fusion_uniform import Uniform, UniformKey
from .patterns import Term, Value

_LEAVING = ("exit", "trap", "brkpt")


class KernelView:
    """One kernel, as `patterns.Source` and more. `known` are its statements, control flow and uses where they are known
    already.
    """

    def __init__(
        self, module: Module, function: Function, known: tuple[Body, ControlFlow, DefUse] | None = None
    ) -> None:
        self.body: Body = linearise(function, module) if known is None else known[0]
        self.flow = ControlFlow(self.body) if known is None else known[1]
        self.uses = DefUse(self.body, self.flow) if known is None else known[2]
        self.values = Values(self.body, self.uses)
        self.scopes = Scopes(self.body)
        self.flag_alive = flag_alive(self.body, self.flow)
        self._module = module
        self._read: dict[tuple[int, str], Value | None] = {}
        self._uniform = Uniform(self.body, self.value)
        self._together: dict[int, bool] = {}
        self._all_return = all(self._returns(s) for s in self.body.statements if s.opcode == "call")

    # ---------------------------------------------------------------------------------------------- patterns.Source

    def statement(self, number: int) -> Statement:
        """Statement by number."""
        return self.body[number]

    def value(self, number: int, register: str) -> Value | None:
        """The definition that a read sees: the only one that reaches it, unguarded, on every path to it.

        Because it dominates the read, two reads of one value, of which one dominates the other, see the same moment of
        a loop: every way from the definition to the second passes the first.
        """
        key = number, register
        if key not in self._read:
            found = self.uses.reaching(number, register)
            plain = [n for n in found if len(found) == 1 and self.body[n].guard is None and self.body[n].known]
            certain = plain and self.flow.statement_dominates(plain[0], number)
            self._read[key] = Value(register, plain[0]) if certain else None
        return self._read[key]

    def readers(self, value: Value) -> tuple[int, ...]:
        """Statements that may read the value."""
        return self.uses.readers(value.statement, value.register)

    def constant(self, number: int, operand: Operand) -> int | None:
        """See `patterns.Source`."""
        if isinstance(operand, Immediate):
            return operand.value & 0xFFFF_FFFF if operand.kind != "f64" else None
        if not isinstance(operand, Register):
            return None
        form = self.values.form(number, operand)
        return form.lanes[0] & 0xFFFF_FFFF if form.uniform else None

    def dominates(self, first: int, second: int) -> bool:
        """Is statement `first` executed before `second` on every path to it."""
        return self.flow.statement_dominates(first, second)

    # --------------------------------------------------------------------------------------------------------- values

    def is_steady(self, value: Value) -> bool:
        """The register is declared for the whole kernel and written once, so it can be read anywhere behind."""
        return "@" not in value.register and self.uses.is_single_def(value.register)

    def width(self, register: str) -> int:
        """Bits of a register; 1 for a predicate, 0 where they are not known."""
        kind = self.body.registers.get(register, "")
        if kind == "pred":
            return 1
        try:
            return 8 * type_bytes(kind)
        except KeyError:
            return 0

    def same_for_all(self, term: Term) -> UniformKey | None:
        """Identity of a term that is equal in all lanes; None where that is not known."""
        return self._uniform.key(term)

    # ------------------------------------------------------------------------------------------------------ the warp

    def is_together(self, number: int) -> bool:
        """Do all lanes of the warp execute the statement, and equally often.

        True in a block that every path passes outside loops, and in a block with an mma, whose `.aligned` demands it.
        """
        block = self.flow.block_of(number)
        if block not in self._together:
            here = self.flow.blocks[block]
            product = any(
                self.body[n].opcode == "mma" and self.body[n].guard is None for n in range(here.start, here.end + 1)
            )
            always = self.flow.post_dominates(block, 0) and not self.flow.block_reaches(block, block)
            self._together[block] = product or (always and self._all_return)
        return self._together[block]

    def _returns(self, call: Statement) -> bool:
        """Is a call sure to come back in every lane: inserted functions, and functions without exits and calls."""
        names = [operand.name for operand in call.operands if isinstance(operand, Symbol)]
        function = self._module.function(names[0]) if names else None
        if function is None or function.body is None:
            return bool(names) and names[0].startswith("zrr_")
        return not _leaves(function.body)

    def same_block(self, first: int, second: int) -> bool:
        """Are both statements in one basic block."""
        return self.flow.block_of(first) == self.flow.block_of(second)


def _leaves(block: Block) -> bool:
    """Is there an instruction that may end a lane or call what may."""
    for item in block.items:
        if isinstance(item, Block) and _leaves(item):
            return True
        if isinstance(item, Instruction) and item.opcode in (*_LEAVING, "call"):
            return True
    return False
