"""ZLUDA's patch series: applied to a checkout, checked, taken back."""

from .series import Patch, Series, load_series
from .tree import Checkout, apply_series, describe_series, revert_series

__all__ = [
    "Checkout",
    "Patch",
    "Series",
    "apply_series",
    "describe_series",
    "load_series",
    "revert_series",
]
