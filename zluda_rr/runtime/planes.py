"""Seeded input planes: what a layer finds in the buffer that the layer before it wrote."""

import numpy as np
import numpy.typing as npt

from zluda_rr.numerics.layout import slot_of_logical
from zluda_rr.runtime.weights import CANCELLING, WorkloadKind, e4m3_normal

TOKEN_BYTES = 32  # one plane's channels of a token, in slot order
NAN, LARGEST, SMALLEST, MINUS_ZERO = 0x7F, 0x7E, 0x01, 0x80


def plane_codes(nbytes: int, kind: WorkloadKind, seed: int) -> npt.NDArray[np.uint8]:
    """e4m3 codes of `nbytes / 32` tokens. A row is normed in f16 before anything else, so large codes are rare: a row
    whose sum of squares overflows becomes zero and shows nothing.
    """
    rng = np.random.default_rng([seed, 0x9A7E])
    sigma = 3.0 if kind is WorkloadKind.SATURATING else 1.0
    codes = e4m3_normal(rng, (nbytes // TOKEN_BYTES, TOKEN_BYTES), sigma)
    if kind is WorkloadKind.CANCELLATION:
        k = np.array(CANCELLING)
        codes[:, slot_of_logical(k + 8)] = codes[:, slot_of_logical(k)]
    chance = rng.random(codes.shape)
    codes[chance < 0.02] = MINUS_ZERO
    codes[chance > 0.98] = SMALLEST
    if kind is WorkloadKind.SATURATING:
        codes[(chance > 0.5) & (chance < 0.5005)] = LARGEST
    if kind is WorkloadKind.SPECIAL:
        codes[(chance > 0.5) & (chance < 0.5002)] = NAN
        codes[0, 0] = NAN | 0x80
    return codes.reshape(-1)
