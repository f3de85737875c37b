"""One table of settings: C library, command line and documentation agree."""

import re
from pathlib import Path

import pytest

from zluda_rr.hook.options import NATIVE, hook_folder, load_options, read_settings

from .sandbox import REWRITTEN, TEXT, Sandbox

PAGE = Path(__file__).parents[2] / "docs" / "environment.md"


def test_every_line_of_the_table_is_read() -> None:
    lines = [line for line in (NATIVE / "options.def").read_text().splitlines() if line.startswith("OPTION(")]
    options = load_options()
    assert len(options) == len(lines)
    assert len({option.variable for option in options}) == len(options)
    assert all(option.default in ("", *option.choices) or option.kind in ("SWITCH", "SECONDS") for option in options)


def test_the_page_says_what_the_table_says() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*) \|$", PAGE.read_text(), re.M)
    expected = [
        (o.variable, values_of(o.kind, o.choices), f"`{o.default}`" if o.default else "", o.meaning)
        for o in load_options()
    ]
    assert rows == expected


def values_of(kind: str, choices: tuple[str, ...]) -> str:
    words = {"SWITCH": "`0`, `1`", "LIST": "names, comma separated", "SECONDS": "1 to 600", "PATH": "path"}
    return words.get(kind) or ", ".join(f"`{choice}`" for choice in choices)


def test_the_library_reads_no_other_variable_of_ours() -> None:
    known = {option.variable for option in load_options()}
    used = set(re.findall(r'"(ZLUDA_RR\w*)"', "".join(p.read_text() for p in NATIVE.glob("*.[ch]"))))
    assert used <= known


def test_defaults_and_environment() -> None:
    settings = read_settings({})
    assert (settings["enabled"], settings["miss"], settings["layers"]) == ("1", "async", "")
    chosen = read_settings({"ZLUDA_RR_LAYERS": " enc0,, enc1 ", "ZLUDA_RR_MISS": "sync"})
    assert chosen["layers"] == "enc0,enc1"
    assert chosen.names("layers") == ("enc0", "enc1")
    assert chosen["miss"] == "sync"
    assert chosen.complaints == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [("ZLUDA_RR", "2"), ("ZLUDA_RR_MISS", "x"), ("ZLUDA_RR_TIMEOUT", "0"), ("ZLUDA_RR_TOOL", "a\nb")],
)
def test_impossible_values_are_named_and_ignored(name: str, value: str) -> None:
    settings = read_settings({name: value})
    assert settings.values == read_settings({}).values
    assert len(settings.complaints) == 1
    assert name in settings.complaints[0]
    assert "expected" in settings.complaints[0]


def config(home: Path, text: str) -> None:
    folder = home / ".config" / "zluda-rr"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)


def test_config_file(tmp_path: Path) -> None:
    config(tmp_path, 'ZLUDA_RR_LAYERS = ["enc0", "enc1"]\nZLUDA_RR_FUSION = false\nZLUDA_RR_TIMEOUT = 7\nOTHER = 1\n')
    settings = read_settings({"HOME": str(tmp_path), "ZLUDA_RR_TIMEOUT": "9"})
    assert (settings["layers"], settings["fusion"], settings["timeout"]) == ("enc0,enc1", "0", "9")
    assert len(settings.complaints) == 1
    assert "OTHER is no setting" in settings.complaints[0]
    config(tmp_path, "ZLUDA_RR = = 1\n")
    broken = read_settings({"HOME": str(tmp_path)})
    assert broken["enabled"] == "1"
    assert "ignored" in broken.complaints[0]


CONFIGS = (
    'ZLUDA_RR_LAYERS = ["enc0", "enc1"]\n',
    "ZLUDA_RR_LAYERS = [ 'enc0' , 'enc1' , ]  # both\n",
    '  ZLUDA_RR_LAYERS="enc0, enc1"\nZLUDA_RR_DISABLE = ""\n',
    "ZLUDA_RR_LAYERS = 'enc0,enc1'\r\nZLUDA_RR_FUSION = false\r\n",
    'ZLUDA_RR_FUSION = 0\nZLUDA_RR_MISS = "off"\n',
    'ZLUDA_RR_DISABLE = "enc1"\nZLUDA_RR_TARGET = "nvptx"\n',
)


@pytest.mark.parametrize("number", range(len(CONFIGS)))
def test_library_and_command_line_read_a_config_alike(box: Sandbox, number: int) -> None:
    """They compute the same key, in which every setting of the rewrite is."""
    config(Path(box.env["HOME"]), CONFIGS[number])
    plain = box.key(TEXT)
    box.env["ZLUDA_RR_MISS"] = "off"
    box.store(TEXT)
    assert plain == box.key(TEXT)
    assert box.run("cuModuleLoadData", "dlsym", TEXT).loads[0][2] == REWRITTEN.encode()
    assert read_settings(box.env).values != read_settings({}).values


def test_every_setting_of_the_rewrite_changes_the_key(box: Sandbox) -> None:
    box.env["ZLUDA_RR_MISS"] = "off"
    box.store(TEXT)
    assert box.run("cuModuleLoadData", "dlsym", TEXT).loads[0][2] == REWRITTEN.encode()
    changes = {"LAYERS": "enc1", "DISABLE": "enc0", "FUSION": "0", "TARGET": "nvptx"}
    for name, value in changes.items():
        outcome = box.run("cuModuleLoadData", "dlsym", TEXT, **{f"ZLUDA_RR_{name}": value})
        assert outcome.loads[0][2] == TEXT, name


def test_folder() -> None:
    assert hook_folder(read_settings({}), {"XDG_CACHE_HOME": "/x", "HOME": "/h"}) == Path("/x/zluda-rr/hook")
    here = hook_folder(read_settings({}), {"XDG_CACHE_HOME": "x", "HOME": "/h"})
    assert here == Path.cwd() / "x" / "zluda-rr" / "hook"
    chosen = {"ZLUDA_RR_CACHE_DIR": "/c"}
    assert hook_folder(read_settings(chosen), chosen) == Path("/c/hook")
