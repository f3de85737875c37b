"""A made game's folder: many small files, text, sparse files, and among them what a rule is for."""

from __future__ import annotations

import json
import os
from pathlib import Path

_ROWS = json.dumps([{"id": i, "name": f"texture_{i}", "path": f"assets/{i:x}.dds"} for i in range(4000)])
# The first bytes of files that games have; none is a container's but for the two sparse ones below.
_KINDS = {
    "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "ogg": b"OggS\0\2",
    "dds": b"DDS \x7c\0\0\0",
    "lua": b"-- a script\nlocal version = 9.0\n",
    "css": b"/* styles .version 9.0 */\nbody {}\n",
    "txt": b"notes: .version 9.0 of .target sm_89 is the next\n",
    "bin": b"\0\1\2\3",
}
_SPARSE = {
    "level.pak": b"PAK\1",
    "world.bin": b"\0",
    "big.dll": b"MZ\x90\0",
    "old.so": b"\x7fELF\2\1\1\0",
    "save.json": b"[" * 8,
}


def make_folder(root: Path, *, files: int, text_bytes: int, sparse_bytes: int) -> int:
    """`files` small files, JSON of `text_bytes` together in ten files, and a sparse file of each kind; how many."""
    for number in range(files):
        folder = root / f"data{number // 1000}"
        if number % 1000 == 0:
            folder.mkdir(parents=True)
        suffix, head = list(_KINDS.items())[number % len(_KINDS)]
        (folder / f"asset{number}.{suffix}").write_bytes(head + str(number).encode() * 40)
    for number in range(10):
        with (root / f"catalogue{number}.json").open("w") as stream:
            while stream.tell() < text_bytes // 10:
                stream.write(_ROWS + "\n")
    for name, head in _SPARSE.items():
        path = root / name
        path.write_bytes(head)
        os.truncate(path, sparse_bytes)
    return files + 10 + len(_SPARSE)
