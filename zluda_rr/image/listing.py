"""The list of what a container holds, as text of at most 100 columns and as JSON."""

import textwrap
from collections.abc import Mapping
from typing import Any

from zluda_rr.image.model import Contents, PtxImage, one_line

_COLUMNS = 100
_INDENT = " " * 10
SCHEMA = "zluda-rr.contents/1"


def listing_text(contents: Contents) -> str:
    """One block per module with its number, then what was skipped."""
    head = f"contents  {one_line(contents.path)}\n"
    count = f"modules   {len(contents.modules)} with PTX, {len(contents.skipped)} skipped\n"
    blocks = [_block(number, module) for number, module in enumerate(contents.modules, 1)]
    skipped = "".join(_wrapped("skipped   ", str(item)) for item in contents.skipped)
    return head + count + "".join(blocks) + (f"\n{skipped}" if skipped else "")


def _block(number: int, module: PtxImage) -> str:
    facts = f"{module.container}, {module.compression}, PTX {module.version}, {module.arch}"
    kernels = ", ".join(module.entries) or "none"
    return (
        "\n"
        + _wrapped(f"{number:<10}", module.origin)
        + _wrapped(_INDENT, facts)
        + _wrapped(_INDENT, f"sha256 {module.sha256}")
        + _wrapped(_INDENT, f"entries {kernels}")
    )


def _wrapped(first: str, text: str) -> str:
    lines = textwrap.wrap(text, _COLUMNS, initial_indent=first, subsequent_indent=_INDENT, break_on_hyphens=False)
    return "".join(f"{line}\n" for line in lines)


def listing_json(contents: Contents, reports: Mapping[int, object] | None = None) -> dict[str, Any]:
    """The list as a JSON document; `reports` holds the inspect document of a module by its number from 1."""
    found = reports or {}
    modules = [
        {"module": number, **module.json(), "report": found.get(number)}
        for number, module in enumerate(contents.modules, 1)
    ]
    skipped = [{"origin": item.origin, "reason": item.reason} for item in contents.skipped]
    return {"schema": SCHEMA, "path": one_line(contents.path), "modules": modules, "skipped": skipped}
