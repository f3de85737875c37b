"""Vector registers, `.reg .v4 .f32 v`: each is as many registers, `v.x` to `v.w`; a plain `v` is `{v.x, …, v.w}`."""

from __future__ import annotations

from dataclasses import replace

from .instructions import InstructionReader
from .nodes import Instruction
from .scan import BODY_CHUNK, WORD, blank_comments

_LANES, _COLOURS = "xyzw", "rgba"


class VectorRegisters:
    """Those of one function, false while there are none."""

    __slots__ = ("_lanes", "_reader")

    def __init__(self) -> None:
        self._lanes: dict[str, int] = {}
        self._reader = InstructionReader(warp_size=True)

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def declare(self, name: str, lanes: int, suffix: str) -> dict[str, str]:
        """The lanes' spellings (`v.x` and `v.r`), each with its unique name."""
        self._lanes[name] = lanes
        letters = zip(_LANES[:lanes], _COLOURS, strict=False)
        return {f"{name}.{c}": f"{name}.{lane}{suffix}" for lane, colour in letters for c in (lane, colour)}

    def spell_out(self, item: Instruction) -> Instruction:
        """The instruction with its whole vectors as lists of lanes. Raises ChunkError where none can stand."""
        if self._lanes.keys().isdisjoint(item.words):
            return item
        found = BODY_CHUNK.match(blank_comments(item.text))
        assert found is not None, item.text
        opcode, operands = found.group(4), WORD.sub(lambda word: self._listed(word.group()), found.group(5))
        shape, words = self._reader.read(f"{opcode} {operands};", "", opcode, operands)
        return replace(item, shape=shape, words=words)

    def _listed(self, word: str) -> str:
        lanes = self._lanes.get(word)
        return word if lanes is None else "{" + ", ".join(f"{word}.{lane}" for lane in _LANES[:lanes]) + "}"
