"""Settings: the table of native/options.def, read from the environment and config.toml as the C library reads them."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.toolchain import user_folder

NATIVE = Path(__file__).parent / "native"
_OPTION = re.compile(
    r'^OPTION\((\w+), "(\w+)", (SWITCH|CHOICE|LIST|SECONDS|PATH), "([^"]*)", "([^"]*)", "((?:[^"\\]|\\.)*)"\)$', re.M
)
_VALUE_BYTES = 1024  # ZRR_VALUE_BYTES of native/zrr.h


@dataclass(frozen=True, slots=True)
class Option:
    """One line of the table."""

    field: str
    variable: str
    kind: str
    choices: tuple[str, ...]
    default: str
    meaning: str

    def expected(self) -> str:
        """Its values, for a message."""
        words = {"SWITCH": "0|1", "CHOICE": "|".join(self.choices), "SECONDS": "1 to 600"}
        return words.get(self.kind, "a shorter value without control characters")

    def accepts(self, value: str) -> bool:
        """Whether the setting can have this value."""
        if len(value.encode()) >= _VALUE_BYTES or any(ord(c) < 32 for c in value):
            return False
        if self.kind == "SWITCH":
            return value in ("0", "1")
        if self.kind == "CHOICE":
            return value in self.choices
        if self.kind == "SECONDS":
            return re.fullmatch(r"[0-9]{1,9}", value) is not None and 1 <= int(value) <= 600
        return True


def load_options() -> tuple[Option, ...]:
    """The table, in its order."""
    found = _OPTION.findall((NATIVE / "options.def").read_text())
    return tuple(Option(f, v, k, tuple(c.split("|")) if c else (), d, m) for f, v, k, c, d, m in found)


@dataclass(frozen=True, slots=True)
class Settings:
    """Effective values by field name, and the complaints about values that were ignored."""

    values: Mapping[str, str]
    complaints: tuple[str, ...] = field(default=())

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def names(self, name: str) -> tuple[str, ...]:
        """A list setting."""
        return tuple(self.values[name].split(",")) if self.values[name] else ()


def _tidy(value: str) -> str:
    return ",".join(part for part in re.split(r"[, \t]+", value) if part)


def _text(value: object) -> str | None:
    """A TOML value as the environment would spell it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    return None


def config_path(environ: Mapping[str, str]) -> Path:
    """Where config.toml is looked for."""
    return user_folder(environ, "XDG_CONFIG_HOME", ".config") / "zluda-rr" / "config.toml"


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Environment over config.toml over defaults; never raises for a bad value."""
    env = os.environ if environ is None else environ
    options = load_options()
    values = {option.field: option.default for option in options}
    complaints: list[str] = []

    def take(option: Option, value: str | None, origin: str) -> None:
        if value is None or not option.accepts(value):
            complaints.append(f"{origin}{option.variable}={value!r} is ignored; expected {option.expected()}")
        else:
            values[option.field] = _tidy(value) if option.kind == "LIST" else value

    config, problem = _config(config_path(env))
    complaints += problem
    known = {option.variable: option for option in options}
    for name, value in config.items():
        if name in known:
            take(known[name], _text(value), "config.toml: ")
        else:
            complaints.append(f"config.toml: {name} is no setting; there are: {', '.join(known)}")
    for option in options:
        if env.get(option.variable):
            take(option, env[option.variable], "")
    return Settings(values, tuple(complaints))


def _config(path: Path) -> tuple[dict[str, object], list[str]]:
    try:
        return tomllib.loads(path.read_text()), []
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError) as error:
        return {}, [f"{path}: {error}; the file is ignored"]


def hook_folder(settings: Settings, environ: Mapping[str, str] | None = None) -> Path:
    """The folder that the library and the command line share. UserError where no absolute path is known."""
    env = os.environ if environ is None else environ
    if settings["cache_dir"]:
        folder = Path(settings["cache_dir"]) / "hook"
    else:
        folder = user_folder(env, "XDG_CACHE_HOME", ".cache") / "zluda-rr" / "hook"
    if not folder.is_absolute():
        raise UserError(f"cache folder {folder}: not absolute; set ZLUDA_RR_CACHE_DIR to an absolute path")
    return folder
