"""PTX text out of the files that hold it. Today: plain text and xz-compressed text."""

from zluda_rr.image.text import read_ptx, shipped_module, write_atomically

__all__ = ["read_ptx", "shipped_module", "write_atomically"]
