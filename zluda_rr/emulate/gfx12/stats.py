"""Instruction counts of a launch, by mnemonic and by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

CLASSES = ("valu", "transcendental", "wmma", "salu", "lds", "global", "scratch", "branch", "wait", "other")

_TRANSCENDENTAL = ("exp", "log", "rcp", "rsq", "sqrt", "sin", "cos")
_BRANCHES = ("s_branch", "s_cbranch_", "s_setpc_", "s_swappc_", "s_call_", "s_endpgm")
_WAITS = (
    "s_wait", "s_delay_alu", "s_nop", "s_sleep", "s_clause", "s_barrier_", "s_sendmsg", "global_inv", "global_wb",
    "s_setprio", "s_dcache_inv", "s_icache_inv", "s_prefetch",
)  # fmt: skip


def classify(mnemonic: str) -> str:
    """Class of an instruction. `global` counts global, flat, buffer and image accesses and scalar loads; `wait`
    everything that only orders or hints; conversions from f64 and the like count as `valu`."""
    if mnemonic.startswith(_BRANCHES):
        return "branch"
    if mnemonic.startswith(_WAITS):
        return "wait"
    if mnemonic.startswith(("v_wmma", "v_swmmac")):
        return "wmma"
    if mnemonic.startswith("v_"):
        stem = mnemonic.removeprefix("v_").removeprefix("s_").split("_")[0]
        return "transcendental" if stem in _TRANSCENDENTAL else "valu"
    if mnemonic.startswith("ds_"):
        return "lds"
    if mnemonic.startswith("scratch_"):
        return "scratch"
    if mnemonic.startswith(("global_", "flat_", "buffer_", "image_", "s_load_", "s_buffer_")):
        return "global"
    return "salu" if mnemonic.startswith("s_") else "other"


@dataclass(frozen=True, slots=True)
class Stats:
    """What a launch executed. A VOPD pair counts once, under the name of its first half."""

    waves: int
    by_address: Mapping[int, int]
    """Executions of the instruction at each address of the code object, summed over waves."""
    mnemonics: Mapping[int, str]
    """The whole program: mnemonic at each address, executed or not."""

    @property
    def instructions(self) -> int:
        return sum(self.by_address.values())

    @property
    def instructions_per_wave(self) -> float:
        return self.instructions / self.waves if self.waves else 0.0

    @property
    def by_mnemonic(self) -> dict[str, int]:
        """Executed instructions by mnemonic, summed over waves."""
        total: Counter[str] = Counter()
        for address, count in self.by_address.items():
            total[self.mnemonics[address]] += count
        return dict(total)

    @property
    def by_class(self) -> dict[str, float]:
        """Mean instructions per wave by class; every class is present."""
        total: Counter[str] = Counter()
        for mnemonic, count in self.by_mnemonic.items():
            total[classify(mnemonic)] += count
        return {name: total[name] / self.waves if self.waves else 0.0 for name in CLASSES}

    @property
    def static_by_class(self) -> dict[str, int]:
        """Instructions of the program by class, executed or not; every class is present."""
        total = Counter(classify(mnemonic) for mnemonic in self.mnemonics.values())
        return {name: total[name] for name in CLASSES}

    def between(self, first: int, last: int) -> Stats:
        """The part of the launch whose addresses lie strictly between two."""
        inside = {address: name for address, name in self.mnemonics.items() if first < address < last}
        return Stats(self.waves, {a: n for a, n in self.by_address.items() if a in inside}, inside)
