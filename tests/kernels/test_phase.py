"""The phase body `zrr_swin_phase` against a numpy model, and the faults that must show."""

from pathlib import Path

import numpy as np
import pytest

from tests.kernels import model
from tests.kernels.harness import as_words, compile_probe, run_probe
from tests.kernels.mutations import MUTATIONS
from tests.kernels.test_staged import fragments, weight_image
from zluda_rr.numerics import layout as lay
from zluda_rr.numerics.mma import WMMA_MODELS
from zluda_rr.resources import resource_dir

BLOCKS = 24
CALL = """
    uint32_t v[20];
    for (int i = 0; i < 20; ++i) v[i] = in[640 * block + 32 * i + l];
    const uint32_t at = zrr_swin_phase(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12],
                                       v[13], v[14], v[15], v[16], v[17], v[18], v[19], lds);
    for (int i = 0; i < 24; ++i) out[768 * block + 32 * i + l] = *lds_at<uint32_t>(at + 4 * l, 128 * i);
"""


def workload(kind: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """(tokens u8[48, 32], weights u8[32 columns, 32]) in slot order, one pair per workgroup."""
    rng = np.random.default_rng(8)
    if kind == "cancelling":
        return [model.cancelling_codes(rng, 48, 32) for _ in range(BLOCKS)]
    return [(model.random_codes(rng, (48, 32)), model.random_codes(rng, (32, 32))) for _ in range(BLOCKS)]


def lane_words(tokens: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The arguments of one call: u32[20, 32] = a0..a11, b0..b7 by lane."""
    tile, word, lane, byte = lay.grid(2, 4, 32, 4)
    image = weight_image(weights)
    b = np.ascontiguousarray(image[lay.weight_lane_offset(tile, lane, word, byte)]).view(np.uint32)
    return np.concatenate([fragments(tokens).reshape(12, 32), b.reshape(8, 32)])


def expected_words(tokens: np.ndarray, weights: np.ndarray, wmma_model: str) -> np.ndarray:
    """u32[24, 32]: the result image of one call."""
    result = model.step(tokens, weights, np.zeros((48, 32), np.float16), wmma_model)
    m, row_half, n, lane, half = lay.grid(3, 2, 4, 32, 2)
    row, column = lay.nv_d_element(lane, row_half, half)
    values = np.ascontiguousarray(result[16 * m + row, 8 * n + column])
    image = np.zeros(768, np.uint32)
    m, row_half, n, lane = lay.grid(3, 2, 4, 32)
    image[lay.phase_result_offset(lane, m, row_half, n) >> 2] = values.view(np.uint32)[..., 0]
    return image


def run(kind: str, wmma_model: str, kernels: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(what the body gives, what the model gives) for all workgroups."""
    data = workload(kind)
    compiled = compile_probe("swin_phase.hip", CALL, kernels)
    words = as_words(*(lane_words(*pair) for pair in data))
    out = run_probe(compiled, words, 768 * BLOCKS, blocks=BLOCKS, model=wmma_model)
    return out, np.concatenate([expected_words(*pair, wmma_model) for pair in data])


@pytest.mark.parametrize("wmma_model", WMMA_MODELS)
@pytest.mark.parametrize("kind", ["random", "cancelling"])
def test_phase_body(kind: str, wmma_model: str) -> None:
    out, expected = run(kind, wmma_model)
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("name", ["logical_k", "operand_halves_swapped", "rounding_skipped", "direct_converter"])
def test_mutations_show(name: str, tmp_path: Path) -> None:
    kernels = MUTATIONS[name].apply(tmp_path / "kernels")
    out, expected = run("cancelling", "exact", kernels)
    assert not np.array_equal(out, expected), MUTATIONS[name].breaks


def test_resources() -> None:
    """Twelve k32 steps' WMMAs, nothing spilled, no cross-lane permutes."""
    compiled = compile_probe("swin_phase.hip", CALL, resource_dir("kernels"))
    kernel = compiled.assembly.split("probe:", 1)[1].split("s_endpgm", 1)[0]
    assert kernel.count("v_wmma_f32_16x16x16_fp8_fp8") == 12
    assert "permute" not in kernel
    resources = compiled.resources("probe")
    assert resources.scratch_bytes == 0
    assert resources.vgpr_spills == 0
