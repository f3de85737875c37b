"""Data files shipped beside the code: HIP kernels, rules, the reference modules, ZLUDA's patches."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
# Name in an installed wheel (pyproject.toml, force-include) -> place in a checkout.
_CHECKOUT = {"kernels": "kernels", "rules": "rules", "modules": "tests/corpus/ptx", "patches": "patches"}


def resource_dir(name: str) -> Path:
    """The folder `kernels`, `rules`, `modules` or `patches`, in a wheel or in a checkout."""
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / _CHECKOUT[name]
