"""What the C library and its helper process say to each other (native/helper.c): little-endian, one request at a time.

A request is its number, the size of what follows, and that; an answer a HIP status, a size, and the answer's bytes or,
where the status is an error, a line of text for the program's stderr.
"""

from __future__ import annotations

import socket
import struct
from enum import IntEnum

__all__ = ["Refusal", "Request", "Status", "receive", "reply"]

_HEADER = struct.Struct("<II")


class Request(IntEnum):
    """emu_request of native/emu.h."""

    LOAD = 1
    PLACE = 2
    UNLOAD = 3
    FUNCTION = 4
    GLOBAL = 5
    LAUNCH = 6
    IMAGE = 7
    MODEL = 8


class Status(IntEnum):
    """The values of hipError_t that the helper answers with."""

    SUCCESS = 0
    INVALID_VALUE = 1
    INVALID_IMAGE = 200
    NO_BINARY_FOR_GPU = 209
    INVALID_HANDLE = 400
    NOT_FOUND = 500
    LAUNCH_FAILURE = 719
    NOT_SUPPORTED = 801


class Refusal(Exception):  # noqa: N818 - an answer, not an error of the helper
    """A request that is answered with an error; the text, if any, is for the program's stderr."""

    def __init__(self, status: Status, text: str = "") -> None:
        super().__init__(text)
        self.status = status


def receive(link: socket.socket) -> tuple[Request, bytes] | None:
    """The next request; None when the program has gone."""
    header = _exactly(link, _HEADER.size)
    if header is None:
        return None
    number, size = _HEADER.unpack(header)
    payload = _exactly(link, size)
    return None if payload is None else (Request(number), payload)


def reply(link: socket.socket, status: Status, payload: bytes) -> None:
    """Send an answer."""
    link.sendall(_HEADER.pack(status, len(payload)) + payload)


def _exactly(link: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = link.recv(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)
