"""What fusion asks about one kernel: values, readers, constants, and where all lanes of a warp are together."""

from __future__ import annotations

from zluda_rr.analysis import Values
from zluda_rr.ptx import Body, ControlFlow, DefUse, Function, Immediate, Module, Operand, Register, Statement, linearise

from .patterns import Term, Value

_UNIFORM_SPECIAL = ("WARP_SZ", "%ctaid", "%nctaid", "%ntid", "%gridid")
_PURE = frozenset(
    "mov cvt cvta add sub mul mad fma min max neg abs and or xor not shl shr prmt lop3 bfe bfi selp setp".split()  # noqa: SIM905
)
UniformKey = tuple[object, ...]


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
        self._read: dict[tuple[int, str], Value | None] = {}
        self._uniform: dict[Value, UniformKey | None] = {}
        self._expressions: dict[UniformKey, int] = {}
        self._together: dict[int, bool] = {}

    # ---------------------------------------------------------------------------------------------- patterns.Source

    def statement(self, number: int) -> Statement:
        """Statement by number."""
        return self.body[number]

    def value(self, number: int, register: str) -> Value | None:
        """The one definition that reaches a read; None where there are several, none, or a guarded one."""
        key = number, register
        if key not in self._read:
            found = self.uses.reaching(number, register)
            plain = [n for n in found if len(found) == 1 and self.body[n].guard is None]
            self._read[key] = Value(register, plain[0]) if plain else None
        return self._read[key]

    def readers(self, value: Value) -> tuple[int, ...]:
        """Statements that may read the value."""
        return self.uses.readers(value.statement, value.register)

    def constant(self, number: int, operand: Operand) -> int | None:
        """See `patterns.Source`."""
        if isinstance(operand, Immediate):
            return operand.value & 0xFFFF_FFFF
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
        """Bits of a register; 1 for a predicate."""
        kind = self.body.registers[register]
        return 1 if kind == "pred" else 32 if kind == "f16x2" else int(kind[1:])

    def same_for_all(self, number: int, term: Term) -> UniformKey | None:
        """Identity of a term that is equal in all lanes; None where that is not known."""
        if isinstance(term, Value):
            return self._uniform_value(term)
        if isinstance(term, Immediate):
            return (term.kind, term.value)
        return ("WARP_SZ",) if getattr(term, "name", "") == "WARP_SZ" else None

    def _uniform_value(self, value: Value) -> UniformKey | None:
        if value not in self._uniform:
            self._uniform[value] = None  # a cycle is not uniform
            self._uniform[value] = self._derive(value)
        return self._uniform[value]

    def _derive(self, value: Value) -> UniformKey | None:
        statement = self.body[value.statement]
        if statement.guard is not None or not statement.known or statement.instruction is None:
            return None
        parameter = statement.opcode == "ld" and "param" in statement.modifiers
        if statement.opcode not in _PURE and not parameter:
            return None
        parts: list[object] = [statement.opcode, statement.modifiers, statement.defs.index(value.register)]
        if parameter:
            parts.append("".join(statement.text.partition("[")[2].split()))
        written = set(statement.defs)
        for word in statement.words:
            if word in statement.uses:
                source = self.value(value.statement, word)
                key = None if source is None else self._uniform_value(source)
                if key is None:
                    return None
                parts.append(key)
            elif word in written:
                continue
            elif word.startswith("%") and not word.startswith(_UNIFORM_SPECIAL):
                return None
            else:
                parts.append(word)
        # A number stands for the whole expression, so that long ones stay cheap to compare.
        return ("value", self._expressions.setdefault(tuple(parts), len(self._expressions)))

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
            self._together[block] = product or always
        return self._together[block]

    def same_block(self, first: int, second: int) -> bool:
        """Are both statements in one basic block."""
        return self.flow.block_of(first) == self.flow.block_of(second)
