"""The loader hook: a C library that swaps modules as they are loaded, its cache, its rewriter and its installation."""

from .bitcode import storing_bitcode
from .build import Library, build, library_path
from .nvptx import finishing, insert_bodies, without_contraction

__all__ = [
    "Library",
    "build",
    "finishing",
    "insert_bodies",
    "library_path",
    "storing_bitcode",
    "without_contraction",
]
