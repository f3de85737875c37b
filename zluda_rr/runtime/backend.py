"""Who compiles a kernel for gfx1201, and the device that runs what comes out: this project's lowering, or ZLUDA."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from zluda_rr.lower import CompiledKernel, compile_module
from zluda_rr.ptx import Module, print_module
from zluda_rr.runtime.device import Device, EmulatorDevice, ZludaDevice
from zluda_rr.runtime.devices.hip import HipDevice, hip_device
from zluda_rr.runtime.zluda import compile_with_zoc, zoc_path

Defines = tuple[tuple[str, str], ...]


class Backend(Protocol):
    """A compiler with its device. Values travel between processes."""

    @property
    def name(self) -> str:
        """How reports call the kernel it compiles from an original module."""

    def compile(self, module: Module, entry: str, bodies: tuple[Path, ...], defines: Defines) -> CompiledKernel:
        """One entry, linked with the bodies it calls (HIP sources, compiled with the macros `defines`)."""

    def device(self) -> Device:
        """A device for its code objects."""


@dataclass(frozen=True, slots=True)
class LoweringBackend:
    """The translation of `zluda_rr.lower`."""

    name: str = "translated"

    def compile(self, module: Module, entry: str, bodies: tuple[Path, ...], defines: Defines) -> CompiledKernel:
        """See Backend."""
        return compile_module(module, entry, bodies=bodies, defines=dict(defines))

    def device(self) -> Device:
        """See Backend."""
        return EmulatorDevice()


@dataclass(frozen=True, slots=True)
class ZludaBackend:
    """ZLUDA's offline compiler."""

    zoc: Path
    name: str = "zluda"

    def compile(self, module: Module, entry: str, bodies: tuple[Path, ...], defines: Defines) -> CompiledKernel:
        """See Backend."""
        return compile_with_zoc(self.zoc, print_module(module), entry, bodies=bodies, defines=dict(defines))

    def device(self) -> Device:
        """See Backend."""
        return ZludaDevice()


@dataclass(frozen=True, slots=True)
class HipBackend:
    """Another backend's compiler with HIP's device."""

    inner: Backend

    @property
    def name(self) -> str:
        """See Backend."""
        return self.inner.name

    def compile(self, module: Module, entry: str, bodies: tuple[Path, ...], defines: Defines) -> CompiledKernel:
        """See Backend."""
        return self.inner.compile(module, entry, bodies, defines)

    def device(self) -> HipDevice:
        """See Backend. UserError where HIP has no device for gfx1201."""
        return hip_device(images=isinstance(self.inner, ZludaBackend))


def choose_backend(zoc: str | None, device: str = "emulator") -> Backend:
    """ZLUDA where a compiler is given (empty: the one `ZLUDA_RR_ZOC` names), else this project's lowering.

    Its code runs in the emulator, or with `device` "hip" on HIP's device, which must be there now.
    """
    inner: Backend = LoweringBackend() if zoc is None else ZludaBackend(zoc_path(zoc))
    if device == "emulator":
        return inner
    backend = HipBackend(inner)
    backend.device()
    return backend
