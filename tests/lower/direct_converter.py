"""The rejected direct-converter route, for tests that it fails."""

from pathlib import Path

from zluda_rr.resources import resource_dir


def direct_runtime(folder: Path) -> Path:
    """A copy of the lowering's runtime that hands NVIDIA's fragment words straight to WMMA, in `folder`."""
    source = (resource_dir("kernels") / "ptx_runtime.hip").read_text()
    start, end = source.index("LOCAL i32x2 operand("), source.index("// NVIDIA's C registers")
    direct = "LOCAL i32x2 operand(u32 low, u32 high) { i32x2 out = {(int)low, (int)high}; return out; }\n\n"
    runtime = folder / "ptx_runtime.hip"
    runtime.write_text(source[:start] + direct + source[end:])
    return runtime
