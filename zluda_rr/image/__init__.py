"""PTX text out of the files that hold it: text, fatbins, cubins, ELF and PE files, directories (docs/containers.md)."""

from zluda_rr.image.contents import contents, modules_in, modules_in_bytes, read_single
from zluda_rr.image.listing import listing_json, listing_text
from zluda_rr.image.model import Compression, Container, Contents, PtxImage, Skipped
from zluda_rr.image.text import read_ptx, shipped_module, write_atomically

__all__ = [
    "Compression",
    "Container",
    "Contents",
    "PtxImage",
    "Skipped",
    "contents",
    "listing_json",
    "listing_text",
    "modules_in",
    "modules_in_bytes",
    "read_ptx",
    "read_single",
    "shipped_module",
    "write_atomically",
]
