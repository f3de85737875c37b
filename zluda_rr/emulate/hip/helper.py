"""The process behind the emulated `libamdhip64.so`: serves one program until that is gone."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from zluda_rr.emulate.hip.images import image_of_request
from zluda_rr.emulate.hip.memory import DeviceMemory
from zluda_rr.emulate.hip.modules import Modules
from zluda_rr.emulate.hip.protocol import Refusal, Request, Status, receive, reply

__all__ = ["MODELS", "Helper", "main"]

MODELS = ("exact", "sequential", "pairwise")
MODEL_VARIABLE = "ZLUDA_RR_HIP_MODEL"
_SOCKET, _MEMORY = 3, 4
"""File descriptors that native/helper.c leaves here."""
_LAUNCH = struct.Struct("<8I")


class Helper:
    """Answers requests."""

    def __init__(self, memory: DeviceMemory, arguments: int, model: str) -> None:
        self._modules = Modules(memory, arguments)
        self._model = model
        self._answers: Mapping[Request, Callable[[bytes], bytes]] = {
            Request.LOAD: lambda data: struct.pack("<IIQ", *self._load(data)),
            Request.PLACE: self._place,
            Request.UNLOAD: self._unload,
            Request.FUNCTION: lambda data: self._modules.function(*_numbered(data)),
            Request.GLOBAL: lambda data: struct.pack("<QQ", *self._modules.variable(*_numbered(data))),
            Request.LAUNCH: self._launch,
            Request.IMAGE: image_of_request,
            Request.MODEL: self._choose,
        }

    def answer(self, request: Request, payload: bytes) -> tuple[Status, bytes]:
        """Status and bytes; an error of ours is a failed launch with its traceback on stderr."""
        try:
            return Status.SUCCESS, self._answers[request](payload)
        except Refusal as refusal:
            return refusal.status, str(refusal).encode()
        except Exception as error:
            traceback.print_exc()
            return Status.LAUNCH_FAILURE, f"the emulator failed: {type(error).__name__}: {error}".encode()

    def _load(self, data: bytes) -> tuple[int, int, int]:
        number, size = self._modules.load(data)
        return number, 0, size

    def _place(self, data: bytes) -> bytes:
        number, _, address = struct.unpack("<IIQ", data)
        self._modules.place(number, address)
        return b""

    def _unload(self, data: bytes) -> bytes:
        self._modules.unload(struct.unpack("<I", data)[0])
        return b""

    def _launch(self, data: bytes) -> bytes:
        function, gx, gy, gz, bx, by, bz, lds = _LAUNCH.unpack_from(data)
        self._modules.launch(function, (gx, gy, gz), (bx, by, bz), lds, data[_LAUNCH.size :], self._model)
        return b""

    def _choose(self, data: bytes) -> bytes:
        name = data.decode(errors="replace")
        if name not in MODELS:
            raise Refusal(Status.INVALID_VALUE, f"no accumulation model {name}; there are: {', '.join(MODELS)}")
        self._model = name
        return b""


def _numbered(data: bytes) -> tuple[int, str]:
    """A module's number and a name in it."""
    return struct.unpack_from("<I", data)[0], data[4:].decode(errors="replace")


def _leave_with_the_program() -> None:
    """End as soon as the program's end of the socket is closed, also within a launch."""
    watched = select.poll()
    watched.register(_SOCKET, 0)  # hang-up is reported unasked
    watched.poll()
    os._exit(0)


def main(arguments: Sequence[str]) -> None:
    """Serve; the arguments are the arena's address and size, its table's size, and the place of kernel arguments."""
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # the program's affair; the socket tells when it ends
        signal.signal(name, signal.SIG_IGN)
    base, size, table_bytes, segment = (int(text) for text in arguments)
    model = os.environ.get(MODEL_VARIABLE) or MODELS[0]
    if model not in MODELS:
        sys.exit(f"libamdhip64 (emulated): {MODEL_VARIABLE}={model}: choose one of {', '.join(MODELS)}")
    threading.Thread(target=_leave_with_the_program, daemon=True).start()
    helper = Helper(DeviceMemory(_MEMORY, base, size, table_bytes), segment, model)
    with socket.socket(fileno=_SOCKET) as link, suppress(BrokenPipeError, ConnectionResetError):
        while (found := receive(link)) is not None:
            reply(link, *helper.answer(*found))
