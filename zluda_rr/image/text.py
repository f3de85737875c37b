"""Plain and xz-compressed PTX files, and writing a result without ever leaving half of one."""

from pathlib import Path

from zluda_rr.atomic import replace_file
from zluda_rr.errors import UserError, listed
from zluda_rr.image.model import one_line
from zluda_rr.image.unpack import MAX_FILE_BYTES, UnpackError, unpack_xz
from zluda_rr.resources import resource_dir

_XZ_MAGIC = b"\xfd7zXZ\x00"


def read_ptx(path: Path) -> str:
    """PTX text of a file, line endings kept. Raises UserError for anything that is not text."""
    data = read_bytes(path)
    if data.startswith(_XZ_MAGIC):
        try:
            data = unpack_xz(data)
        except UnpackError as error:
            raise UserError(f"{one_line(path)}: {error}; fetch the file again") from error
    return decode_text(data, path)


def read_bytes(path: Path) -> bytes:
    """A file of at most MAX_FILE_BYTES. Raises UserError."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UserError(f"{one_line(path)}: {error.strerror or error}; name a readable PTX file") from error
    if len(data) > MAX_FILE_BYTES:
        raise UserError(f"{one_line(path)}: more than {MAX_FILE_BYTES >> 30} GiB; name a smaller file")
    return data


def decode_text(data: bytes, path: Path) -> str:
    """`data` of the file `path` as text. Raises UserError for empty and for binary data."""
    name = one_line(path)
    if not data.strip():
        raise UserError(f"{name}: the file is empty; expected PTX text")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: byte {error.start}: not UTF-8 text; expected PTX, not a binary") from error
    if "\x00" in text:
        raise UserError(f"{name}: byte {data.index(0)}: a NUL byte; expected PTX text, not a binary")
    return text


def shipped_module(name: str) -> Path:
    """Path of a reference module (`enc0`, `enc0-nvcc13.5`, …). Raises UserError naming those there are."""
    folder = resource_dir("modules")
    path = folder / f"{name}.ptx.xz"
    if not path.is_file():
        have = listed(sorted(p.name.removesuffix(".ptx.xz") for p in folder.glob("*.ptx.xz")))
        raise UserError(f"no reference module named {name}; there are: {have}")
    return path


def write_atomically(path: Path, data: bytes) -> None:
    """Write a result whole or not at all, through links. UserError where it cannot be written or is no plain file."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise UserError(f"{path}: no plain file; name one that may be replaced")
    try:
        replace_file(target, data)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}; name a writable place") from error
