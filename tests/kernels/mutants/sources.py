"""Which files make a body, and all their mutants."""

from __future__ import annotations

import hashlib

from tests.kernels import enc0
from tests.kernels.mutants.operators import Mutant, mutants
from zluda_rr.resources import resource_dir

BODIES = {"direct": enc0.DIRECT, "staged": enc0.STAGED}
# What one body alone uses; capture (zrr_capture.h) is compiled away in all of these.
_SHARED = ("zrr_base.h", "zrr_f16.h", "zrr_wmma.h", "zrr_direct.h", "zrr_norm.h", "zrr_attention.h", "zrr_mlp.h")
FILES = {
    "direct": ("enc0_layer.h", *_SHARED, "zrr_merge.h", "zrr_staged.h", "swin_enc0.hip"),
    "staged": ("zrr_staged.h", "zrr_nvidia.h", "swin_enc0_staged.hip"),
}


def all_mutants(body: str) -> list[Mutant]:
    """Every mutant of a body's files: first one per place and operator, then the others, each in an order that has
    nothing to do with the text, so that a part of the list is a fair sample."""
    found = [m for name in FILES[body] for m in mutants(name, (resource_dir("kernels") / name).read_text())]
    places: set[tuple[str, int, str]] = set()
    first, others = [], []
    for mutant in found:
        place = (mutant.file, mutant.start, mutant.operator)
        (others if place in places else first).append(mutant)
        places.add(place)
    return [*sorted(first, key=_shuffle), *sorted(others, key=_shuffle)]


def _shuffle(mutant: Mutant) -> str:
    return hashlib.sha256(mutant.name.encode()).hexdigest()
