"""Workloads and the kernel around the enc0 bodies; results by token, to compare with the corpus's numpy model."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.corpus import model_enc0, model_formats
from tests.kernels.test_staged import fragments
from zluda_rr import toolchain
from zluda_rr.emulate.gfx12 import BLOCK_LIMIT, Stats, load_code_object, run_kernel
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.numerics import layout as lay
from zluda_rr.resources import resource_dir
from zluda_rr.runtime.weights import Region, RegionKind, WorkloadKind, weight_image

WEIGHT_BYTES = 54_560
EXTENTS = (26, 18)
SHIFT = (6, 2)
BLOCKS = (4, 3)

# Byte offset and size of everything the body reads (rr-module's weight image of enc0).
MATRICES = [(at, 1024) for at in (4096, 5184, 6336, 7360, 20672, 21696, 22720, 36032)]
MATRICES += [(at, 1024) for at in (37184, 38272, 39360, 40448, 41472, 42560, 43584, 44672)]
MATRICES += [(45696, 8192), (54016, 512)]
COLUMNS = [(at, 64) for at in (5120, 6208, 38208, 40384, 42496, 44608)] + [(53888, 128), (54528, 32)]
REGIONS = (
    [Region(f"b{at}", at, size, RegionKind.MATRIX) for at, size in MATRICES]
    + [Region(f"c{at}", at, size, RegionKind.COLUMN, bounded=at in (5120, 6208)) for at, size in COLUMNS]
    + [Region(f"t{at}", at, 64, RegionKind.TABLE, bounded=True) for at in (37056, 39296)]
    + [Region(f"g{at}", at, 64, RegionKind.GAIN) for at in (6272, 37120)]
    + [Region(f"s{at}", at, 12288, RegionKind.SCORE_BIAS) for at in (8384, 23744)]
)

KERNEL = """
#include "{source}"
extern "C" __attribute__((global, amdgpu_flat_work_group_size(32, 32), amdgpu_waves_per_eu(8, 16)))
void probe(uint64_t in, uint64_t out, uint64_t w, uint64_t arena, uint64_t planes, uint32_t ex, uint32_t ey,
           uint32_t sx, uint32_t sy, uint32_t image_stride) {{
    static __attribute__((shared)) uint32_t shared_bytes[{lds_bytes} / 4];
    const uint32_t lds = (uint32_t)(ZRR_LDS uint32_t*)shared_bytes + {lds_offset}, l = zrr::lane_id();
    const uint32_t bx = __builtin_amdgcn_workgroup_id_x(), by = __builtin_amdgcn_workgroup_id_y();
    const uint32_t block = by * ((ex + sx + 7) / 8) + bx;
    const zrr::gptr source = zrr::global_pointer(in) + 3072 * block, target = zrr::global_pointer(out) + 2048 * block;
    uint32_t a[24];
    for (int i = 0; i < 24; ++i) a[i] = *zrr::global_at<uint32_t>(source + 128 * i, 4 * l);
    const uint32_t at = {body}(
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16],
        a[17], a[18], a[19], a[20], a[21], a[22], a[23], 0, 0, 0, 0, w + (uint64_t)image_stride * block, arena, planes,
        ex, ey, 8 * bx - sx, 8 * by - sy, lds);
    zrr::lds_order();
    for (int i = 0; i < 16; ++i)
        *zrr::global_at<uint32_t>(target + 128 * i, 4 * l) = *zrr::lds_at<uint32_t>(at + 4 * l, 128 * i);
}}
"""


@dataclass(frozen=True, slots=True)
class Result:
    """arena u8[ey, ex, 32], planes u8[2, ey/2, ex/2, 32], d22 f16[B, 64, 16]."""

    arena: np.ndarray
    planes: np.ndarray
    d22: np.ndarray


def workload(kind: WorkloadKind, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """(weight image, token codes u8[B, 96, 32] in logical k)."""
    rng = np.random.default_rng(seed)
    image = weight_image(REGIONS, WEIGHT_BYTES, kind, seed)
    values = rng.uniform(-8, 8, (BLOCKS[0] * BLOCKS[1], 96, 32)) * 2.0 ** rng.integers(-9, 1, 32)
    return image, model_formats.requantise(values.astype(np.float16))


@dataclass(frozen=True, slots=True)
class Body:
    """A body of `kernels/`: its file, its function and the macros that select a variant."""

    source: str
    function: str
    defines: tuple[tuple[str, str], ...] = ()


DIRECT = Body("swin_enc0.hip", "zrr_swin_enc0")
SATURATING = Body("swin_enc0.hip", "zrr_swin_enc0", (("ZRR_SATURATING", "1"),))
STAGED = Body("swin_enc0_staged.hip", "zrr_swin_enc0_staged")
LENT_BYTES = 3200


def workload_at_the_bounds(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Weights as large as the range proofs of zrr_direct.h allow, with few signs, so that sums come near the bounds:
    of the heads (then the residual is too large for the branches' proof) or of the MLP branches."""
    image, codes = workload(WorkloadKind.RANDOM, seed=5)
    rng = np.random.default_rng(5)
    heads = part == "heads"
    matrices = (6336, 7360, 21696, 22720) if heads else [at for at, _ in MATRICES[8:16]]
    columns = [(6272, 32.0)] if heads else [(37120, 16.0)] + [(at, 8.0) for at in (39296, 38208, 40384, 42496, 44608)]
    for at in matrices:
        image[at : at + 1024] = 0x3F | (rng.random(1024) < 0.1) << 7  # 1.875
    for at, value in columns:
        image[at : at + 64] = np.full(32, value, np.float16).view(np.uint8)
    return image, codes


def compile_body(
    body: Body = DIRECT, *, kernels: Path | None = None, lds_bytes: int = LENT_BYTES, lds_offset: int = 0
) -> toolchain.Compiled:
    """The kernel `probe` around a body of `kernels/` (or of a patched copy). The body is lent the bytes of shared
    memory from `lds_offset` on."""
    text = KERNEL.format(source=body.source, body=body.function, lds_bytes=lds_bytes, lds_offset=lds_offset)
    return toolchain.compile_hip_kernel(text, includes=[kernels or resource_dir("kernels")], defines=dict(body.defines))


def run(
    compiled: toolchain.Compiled,
    image: np.ndarray,
    codes: np.ndarray,
    model: str,
    *,
    extents: tuple[int, int] = EXTENTS,
    block_limit: int = BLOCK_LIMIT,
) -> tuple[Result, Stats]:
    """Run `probe` over the grid in the emulator. `image` is one weight image, or [B, bytes]: one per block."""
    ex, ey = extents
    memory = AddressSpace(capacity=1 << 26)
    slots = codes[..., lay.logical_of_slot(np.arange(32))]
    words = np.stack([fragments(block).reshape(24, 32) for block in slots])
    source = memory.allocate("in", words.nbytes, data=words.view(np.uint8), writable=False)
    target = memory.allocate("out", 2048 * len(codes))
    weights = memory.allocate("w", image.size, data=image.reshape(-1), writable=False)
    arena = memory.allocate("arena", 32 * ex * ey)
    planes = memory.allocate("planes", 16 * ex * ey)
    kernarg = np.array([source, target, weights, arena, planes], np.uint64).tobytes()
    kernarg += np.array([ex, ey, *SHIFT, WEIGHT_BYTES if image.ndim == 2 else 0], np.uint32).tobytes()
    code = load_code_object(compiled.code_object)
    grid = model_enc0.Geometry(ex, ey, *SHIFT).grid
    stats = run_kernel(code, "probe", (*grid, 1), (32, 1, 1), kernarg, memory, model, block_limit=block_limit)
    return (
        Result(
            memory.view("arena").reshape(ey, ex, 32).copy(),
            memory.view("planes").reshape(2, ey // 2, ex // 2, 32).copy(),
            memory.view("out").view(np.float16).reshape(-1, 64, 16).copy(),
        ),
        stats,
    )


def _products(image: np.ndarray, codes: np.ndarray, model: str) -> dict[int, np.ndarray]:
    """D of phases 20 to 22 from the numpy model, `image` as in `run`."""
    accumulate = model_formats.ACCUMULATE[model]
    if image.ndim == 1:
        return model_enc0.phases(codes, image, accumulate)
    blocks = [model_enc0.phases(codes[i : i + 1], own, accumulate) for i, own in enumerate(image)]
    return {phase: np.concatenate([d[phase] for d in blocks]) for phase in (20, 21, 22)}


def expected(image: np.ndarray, codes: np.ndarray, model: str, *, extents: tuple[int, int] = EXTENTS) -> Result:
    """The same from the numpy model of the layer."""
    ex, ey = extents
    inputs = model_enc0.Inputs(ex, ey, *SHIFT, image, np.zeros((ey, ex, 4), np.float16))
    x0, y0 = model_enc0.block_origins(inputs)
    with np.errstate(all="ignore"):
        d = _products(image, codes, model)
    result = Result(np.zeros((ey, ex, 32), np.uint8), np.zeros((2, ey // 2, ex // 2, 32), np.uint8), d[22])
    order = model_formats.SLOT_CHANNEL
    model_enc0.scatter(model_enc0.pack(d[20]).reshape(-1, 8, 8, 32)[..., order], result.arena, x0, y0)
    merged = model_enc0.pack(d[21]).reshape(-1, 4, 4, 2, 32)
    for plane in range(2):
        model_enc0.scatter(merged[..., plane, order], result.planes[plane], x0 // 2, y0 // 2)
    return result
