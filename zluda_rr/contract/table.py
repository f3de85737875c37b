"""A table of a rule file whose keys are each read once and of the right type; what is left over is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .model import ContractError


class Table:
    """Typed access to one TOML table. Every complaint names the file and the key."""

    def __init__(self, place: str, data: Mapping[str, Any]) -> None:
        self.place = place
        self._data = data
        self._read: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def close(self) -> None:
        """ContractError where a key was never asked for."""
        unknown = [key for key in self._data if key not in self._read]
        if unknown:
            raise ContractError(f"{self.place}: unknown key {unknown[0]!r}")

    def _get(self, key: str, default: Any = None) -> Any:
        self._read.add(key)
        if key in self._data:
            return self._data[key]
        if default is None:
            raise ContractError(f"{self.place}: key {key!r} is missing")
        return default

    def _wrong(self, key: str, wanted: str) -> ContractError:
        return ContractError(f"{self.place}: {key} = {self._data.get(key)!r}, {wanted} is needed")

    def number(self, key: str, default: int | None = None) -> int:
        """A number that is not negative."""
        value = self._get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(key, "a number")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self._get(key, default)
        if not isinstance(value, str) or not value:
            raise self._wrong(key, "a text")
        return value

    def choice(self, key: str, values: Sequence[str]) -> str:
        """One of some words."""
        value = self._get(key)
        if value not in values:
            raise self._wrong(key, " or ".join(map(repr, values)))
        return str(value)

    def names(self, key: str, values: Sequence[str], default: Sequence[str] | None = None) -> tuple[str, ...]:
        """A list of some of these words."""
        found = self._get(key, default)
        if not isinstance(found, list | tuple) or not set(found) <= set(values):
            raise self._wrong(key, f"a list of {', '.join(values)}")
        return tuple(found)

    def pair(self, key: str) -> tuple[int, int]:
        """Two numbers."""
        value = self._get(key)
        if not isinstance(value, list) or len(value) != 2 or not all(isinstance(v, int) for v in value):
            raise self._wrong(key, "two numbers")
        return int(value[0]), int(value[1])

    def table(self, key: str, default: Mapping[str, Any] | None = None) -> Table:
        """A table of its own."""
        value = self._get(key, default)
        if not isinstance(value, Mapping):
            raise self._wrong(key, "a table")
        return Table(f"{self.place}: {key}", value)

    def tables(self, key: str) -> Iterator[Table]:
        """A list of tables, none where the key is missing; each is closed after its turn."""
        value = self._get(key, ())
        if not isinstance(value, list | tuple) or not all(isinstance(v, Mapping) for v in value):
            raise self._wrong(key, "a list of tables")
        for position, data in enumerate(value, 1):
            table = Table(f"{self.place}: {key} {data.get('name', position)}", data)
            yield table
            table.close()
