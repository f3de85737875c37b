"""Accumulators that the oracle captured, put together as the matrices of the numpy models."""

from __future__ import annotations

import numpy as np


def final_tiles(count: int, columns: int, k_steps: int, captured: list[tuple[np.ndarray, ...]]) -> np.ndarray:
    """D of one phase [warps, rows, columns] from its mma in program order: m-tile, column pair, k step, parity."""
    groups = columns // 16
    last = np.array([[r.view(np.float16) for r in regs] for regs in captured])  # [mma, half, warp, 2*lane]
    warps = last.shape[2]
    tiles = last.reshape(count // (groups * k_steps * 2), groups, k_steps, 2, 2, warps, 8, 8)[:, :, -1]
    # m, group, parity, half, warp, g, 2t+c -> warp, (m, half, g), (group, parity, 2t+c)
    return tiles.transpose(4, 0, 3, 5, 1, 2, 6).reshape(warps, -1, columns)
