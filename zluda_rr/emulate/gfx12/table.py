"""How instruction families describe themselves: mnemonic to a function that binds one instruction."""

from __future__ import annotations

from collections.abc import Callable

from zluda_rr.emulate.gfx12.bind import Binder, Formula

Build = Callable[[Binder], None]
"""Adds the steps of the binder's instruction to it."""


def per_lane(sources: str, result: str, formula: Formula) -> Build:
    """`dst = formula(*sources)` in every enabled lane, with one letter (see `fetch`) per source."""

    def build(b: Binder) -> None:
        b.emit(result, formula, *b.vectors(sources))

    return build


def per_wave(sources: str, results: str, formula: Formula) -> Build:
    """Scalar instruction: one letter per source; results as in `Binder.emit_scalar`."""

    def build(b: Binder) -> None:
        args = [b.scalar(index, letter) for index, letter in enumerate(sources)]
        b.emit_scalar(results, formula, *args)

    return build


def keyed(names: dict[str, Build], prefix: str) -> dict[str, Build]:
    """The same table under longer names."""
    return {prefix + name: build for name, build in names.items()}
