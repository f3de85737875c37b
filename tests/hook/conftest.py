"""Fixtures of the hook's tests."""

from pathlib import Path

import pytest

from zluda_rr.hook import Library, library_path

from .sandbox import Programs, Sandbox, compile_programs


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return compile_programs(tmp_path_factory.mktemp("programs"), library_path(Library.PRELOAD))


@pytest.fixture
def box(tmp_path: Path, programs: Programs) -> Sandbox:
    return Sandbox(tmp_path, programs)
