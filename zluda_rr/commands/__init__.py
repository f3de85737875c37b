"""Commands of the program, one module each; a module's `register` adds its command."""

from zluda_rr.commands.selftest import register as register_selftest

__all__ = ["register_selftest"]
