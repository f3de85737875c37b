"""What the tests of the probes share."""

from __future__ import annotations

from zluda_rr.ptx import Module, Opaque, linearise


def opaque(module: Module) -> list[Opaque]:
    """Every opaque node of a module."""
    inside = (item for function in module.functions if function.body for item in function.body.walk())
    return [*module.opaque, *(item for item in inside if isinstance(item, Opaque))]


def understand(module: Module) -> None:
    """Raises the PtxError of the first function that is not understood."""
    for function in module.functions:
        if function.body is not None:
            linearise(function, module)
