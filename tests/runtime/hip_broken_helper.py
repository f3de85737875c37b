"""A helper of the emulated HIP whose emulator adds wrongly (ZLUDA_RR_HIP_HELPER)."""

from collections.abc import Sequence

import numpy as np

from zluda_rr.emulate.gfx12 import dispatch, launch
from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.hip import helper


def main(arguments: Sequence[str]) -> None:
    table = dict(dispatch.operations())

    def wrong_sum(b: Binder) -> None:
        b.emit("f", lambda x, y: x + y + np.float32(1), b.vector(0, "f"), b.vector(1, "f"))

    table["v_add_f32"] = wrong_sum
    vars(launch)["operations"] = lambda: table
    helper.main(arguments)
