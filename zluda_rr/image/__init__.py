"""PTX text out of the files that hold it: text, fatbins, cubins, ELF and PE files, directories (docs/containers.md)."""

from zluda_rr.image.contents import contents, modules_in, modules_in_bytes, read_single
from zluda_rr.image.fatbin import FatbinText
from zluda_rr.image.fatbin_edit import Fatbin, Loader, entry_image, read_fatbin
from zluda_rr.image.listing import listing_json, listing_text
from zluda_rr.image.model import Compression, Container, Contents, PtxImage, Skip, Skipped, one_line
from zluda_rr.image.scan import Scan, files_below
from zluda_rr.image.source import read_range
from zluda_rr.image.text import read_ptx, shipped_module, write_atomically

__all__ = [
    "Compression",
    "Container",
    "Contents",
    "Fatbin",
    "FatbinText",
    "Loader",
    "PtxImage",
    "Scan",
    "Skip",
    "Skipped",
    "contents",
    "entry_image",
    "files_below",
    "listing_json",
    "listing_text",
    "modules_in",
    "modules_in_bytes",
    "one_line",
    "read_fatbin",
    "read_ptx",
    "read_range",
    "read_single",
    "shipped_module",
    "write_atomically",
]
