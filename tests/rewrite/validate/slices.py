"""Which statements of a fused kernel matter to anything outside: a slice backwards from its effects."""

from __future__ import annotations

import re

from zluda_rr.ptx import Body, ControlFlow, DefUse, Module, Statement, linearise

_PURE = frozenset(
    """
    mov cvt cvta add sub mul mad fma min max neg abs and or xor not shl shr prmt lop3 selp setp ld rcp rsqrt ex2
    movmatrix mma shfl
    """.split()  # noqa: SIM905 - easier to read than a list
)
_PRODUCT = re.compile(r"zrr_fc_product(\d)\b")


def words_read(name: str, count: int) -> set[int]:
    """Arguments that a helper's result depends on: one word of C for each word of a product."""
    found = _PRODUCT.match(name)
    return set(range(8)) | {8 + int(found[1])} if found else set(range(count))


class Slice:
    """Statements (numbers) whose results are used."""

    def __init__(self, module: Module, entry: str) -> None:
        function = module.function(entry)
        assert function is not None
        self.body: Body = linearise(function, module)
        self._uses = DefUse(self.body, ControlFlow(self.body))
        self._stores: dict[str, list[int]] = {}
        self._calls: dict[str, int] = {}
        for statement in self.body.statements:
            if statement.opcode == "st" and "param" in statement.modifiers:
                self._stores.setdefault(statement.words[0], []).append(statement.number)
            elif statement.opcode == "call":
                self._calls[statement.words[0]] = statement.number
        self.used = self._closure()

    def _closure(self) -> set[int]:
        used: set[int] = set()
        pending = [s.number for s in self.body.statements if self._effect(s)]
        while pending:
            number = pending.pop()
            if number in used:
                continue
            used.add(number)
            statement = self.body[number]
            for register in statement.uses:
                pending += self._uses.reaching(number, register)
            if statement.opcode == "ld" and statement.words[-1] in self._calls:
                pending.append(self._calls[statement.words[-1]])
            if statement.opcode == "call":
                for i, name in enumerate(statement.words[2:]):
                    if i in words_read(statement.words[1], len(statement.words) - 2):
                        pending += self._stores.get(name, [])
        return used

    @staticmethod
    def _effect(statement: Statement) -> bool:
        if statement.instruction is None or statement.opcode == "call":
            return False
        return statement.opcode not in _PURE and not (statement.opcode == "st" and "param" in statement.modifiers)

    def reason(self, number: int, after: str) -> str | None:
        """Why a change of a statement cannot be seen; None where it might be."""
        statement = self.body[number]
        if number not in self.used:
            return "its result is not used"
        if statement.opcode == "call":
            names = [name.strip().partition("@")[0] for name in after.rpartition("(")[2].rstrip(");").split(",")]
            old = [name.partition("@")[0] for name in statement.words[2:]]
            read = words_read(statement.words[1], len(old))
            if statement.words[1] in after and all(names[i] == old[i] for i in read):
                return "the words that changed places do not matter to this result"
        return None
