"""What a stage compares."""

import pytest

from zluda_rr.ptx import print_module
from zluda_rr.runtime import Progress, stages, subject
from zluda_rr.runtime.variants import Request


def test_the_original_of_a_fused_kernel_is_not_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it calls helpers that it is not linked with."""
    seen: list[Request] = []

    def compile_none(requests: tuple[Request, ...], *_: object) -> tuple[None, None]:
        seen.extend(requests)
        return None, None

    monkeypatch.setattr(stages, "compile_all", compile_none)
    stages.phase_probe(subject("enc0", (), fusion=True), Progress(True), 1)
    original, fused = (print_module(request.module) for request in seen)
    assert "zrr_fc_" not in original
    assert "zrr_fc_" in fused
    assert (bool(seen[0].bodies), bool(seen[1].bodies)) == (False, True)
