"""Messages stay lines that can be read, however many names a module has."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from zluda_rr.cli import main
from zluda_rr.errors import listed

_KERNELS = "".join(f".visible .entry {'long_name_' * 20}{i}()\n{{\n\tret;\n}}\n" for i in range(3000))
_HEAD = ".version 9.0\n.target sm_89\n.address_size 64\n"


def test_ten_names_and_how_many_more() -> None:
    assert listed([]) == "none"
    assert listed(["a", "b"]) == "a, b"
    assert listed(str(i) for i in range(10)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert listed(str(i) for i in range(1234)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 1,224 more"
    assert listed(["x" * 4000]) == "x" * 100 + "…"


@pytest.mark.parametrize(
    "command", [["compile"], ["compile", "--entry", "other"], ["rewrite"], ["rewrite", "--module", "7"]]
)
def test_errors_of_a_module_with_many_kernels_are_short(command: list[str], tmp_path: Path) -> None:
    source = tmp_path / "many.ptx"
    source.write_text(_HEAD + _KERNELS)
    done = CliRunner().invoke(main, [*command, str(source), "-o", str(tmp_path / "out.ptx")])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 1500, len(done.stderr)
