"""Which lane a lane reads from: DPP controls, DPP8 and ds_swizzle as plain index arithmetic over 32 lanes.

Source: AMD "RDNA4" Instruction Set Architecture, sections on DPP8, DPP16 and DS_SWIZZLE_B32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LANES = 32
ROW = 16

Lanes = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A lane exchange: lane l reads lane `source[l]`, unless `inside[l]` is false (no such lane in its row).

    `writes[l]` is what row_mask and bank_mask allow. `fetch_inactive` makes lanes that EXEC disables readable.
    A lane without a readable source reads 0 if `zero_outside`, else it is not written at all.
    """

    source: Lanes
    inside: Flags
    writes: Flags
    zero_outside: bool
    fetch_inactive: bool

    @property
    def is_total(self) -> bool:
        """Whether every lane is written from an existing lane, provided that all lanes are enabled."""
        return bool(self.inside.all() and self.writes.all())


def exchange(mods: Mapping[str, int]) -> Exchange | None:
    """The exchange that an instruction's DPP modifiers ask for, None without any."""
    if "dpp8" not in mods and "dpp_ctrl" not in mods:
        return None
    everywhere = np.ones(LANES, dtype=np.bool_)
    if "dpp8" in mods:
        return Exchange(dpp8(mods["dpp8"]), everywhere, everywhere, True, bool(mods.get("fi", 0)))
    source, inside = dpp16(mods["dpp_ctrl"])
    lane = np.arange(LANES)
    rows = (mods.get("row_mask", 15) >> (lane // ROW)) & 1
    banks = (mods.get("bank_mask", 15) >> (lane % ROW // 4)) & 1
    writes = (rows & banks).astype(np.bool_)
    return Exchange(source, inside, writes, bool(mods.get("bound_ctrl", 0)), bool(mods.get("fi", 0)))


def dpp8(selector: int) -> Lanes:
    """Source lanes of a 24-bit DPP8 selector: three bits per lane of each group of eight."""
    lane = np.arange(LANES)
    return (lane & ~7) | ((selector >> (3 * (lane & 7))) & 7)


def dpp16(control: int) -> tuple[Lanes, Flags]:
    """Source lanes and whether they exist, for the 9-bit DPP control of gfx11 and gfx12.

    Raises ValueError for a reserved control.
    """
    lane = np.arange(LANES)
    row, place = lane & ~(ROW - 1), lane & (ROW - 1)
    kind, amount = control & ~15, control & 15
    everywhere = np.ones(LANES, dtype=np.bool_)
    if control < 0x100:  # quad_perm
        return (lane & ~3) | ((control >> (2 * (lane & 3))) & 3), everywhere
    if kind == 0x100 and amount:  # row_shl: lane l reads l + n
        return row | ((place + amount) & 15), place + amount < ROW
    if kind == 0x110 and amount:  # row_shr
        return row | ((place - amount) & 15), place >= amount
    if kind == 0x120 and amount:  # row_ror
        return row | ((place - amount) & 15), everywhere
    if control == 0x140:  # row_mirror
        return row | (15 - place), everywhere
    if control == 0x141:  # row_half_mirror
        return row | (place & 8) | (7 - (place & 7)), everywhere
    if kind == 0x150:  # row_share
        return row | amount, everywhere
    if kind == 0x160:  # row_xmask
        return row | (place ^ amount), everywhere
    raise ValueError(f"DPP control {control:#x} is reserved")


def swizzle(offset: int) -> Lanes:
    """Source lanes of ds_swizzle_b32 for its 16-bit offset (quad permutation, rotation, FFT or bit mask)."""
    lane = np.arange(LANES)
    if offset >= 0xE000:
        return _fft(offset & 31)
    if offset >= 0xC000:
        amount = (offset >> 5) & 31
        keep = offset & 31
        turn = -amount if offset >> 10 & 1 else amount
        return (lane & keep) | ((lane + turn) & ~keep & 31)
    if offset & 0x8000:
        return (lane & ~3) | ((offset >> (2 * (lane & 3))) & 3)
    return (((lane & offset) | (offset >> 5)) ^ (offset >> 10)) & 31


def _fft(mask: int) -> Lanes:
    """FFT mode: bit-reversed lane numbers, shifted down by the number of lane bits that `mask` keeps."""
    lane = np.arange(LANES)
    reverse = sum(((lane >> bit) & 1) << (4 - bit) for bit in range(5))
    return (reverse >> mask.bit_count()) | (lane & mask)


def permlane16_selectors(low: Lanes, high: Lanes) -> Lanes:
    """Selectors `[waves, 16]` from the two scalar operands `[waves]`: four bits per lane of a row."""
    place = np.arange(8)
    words = np.stack([low, high], axis=-1)
    return ((words[..., None] >> (4 * place)) & 15).reshape(*low.shape, 16)
