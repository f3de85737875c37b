"""`inspect --html`: self-contained, well-formed, complete; looked at in a real browser where there is one."""

import re
import shutil
import struct
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.rewrite.conftest import corpus
from tests.rewrite.reports import report, text
from zluda_rr.cli import main
from zluda_rr.contract import load_contract
from zluda_rr.rewrite import EntryReport, examine_module, report_page
from zluda_rr.rewrite.page_figures import image_spans

VOID = {"meta", "br"}
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Checker(HTMLParser):
    """Every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page() -> str:
    return report_page([report("enc1")], "enc1.ptx")


@pytest.fixture(scope="module")
def recognised() -> str:
    module = examine_module(text("enc0"), filename="enc0.ptx", contracts=[load_contract("enc0")])
    return report_page([module], "enc0.ptx")


def entry() -> EntryReport:
    return report("enc1").entries[0]


def test_well_formed_and_self_contained(page: str) -> None:
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.counts["svg"] == 4
    assert not re.search(r"(src|href)=|url\(|@import|<script|https?://", page)
    assert "prefers-color-scheme: dark" in page
    assert len(page.encode()) < 300_000


def test_every_phase_is_in_every_figure(page: str) -> None:
    timeline, graph, image = page.split("<svg ")[1:4]
    assert [int(n) for n in re.findall(r"<title>phase (\d+):", timeline)] == list(range(1, 33))
    assert re.findall(r">P(\d+)</text>", graph) == [str(n) for n in range(1, 33)]
    for first, end, _, label in image_spans(entry().found):
        assert f"{label}: {first}-{end}<" in image
    for epilogue in entry().epilogues:
        for operation in epilogue.operations:
            assert f"E{epilogue.index}: {operation}, {operation.statements} statements" in timeline


def test_edges_are_the_sources(page: str) -> None:
    graph = page.split("<svg ")[2]
    assert "softmax(D5) into P6" in graph
    assert "D14 + table 41408 into P16" in graph
    assert graph.count("norm(D14, gain 37120) into") == 8


def test_both_palettes_name_the_same_colours(page: str) -> None:
    light, dark = page.split("prefers-color-scheme: dark")
    names = set(re.findall(r"(--[\w-]+):", light[: light.index("box-sizing")] if "box-sizing" in light else light))
    assert names == set(re.findall(r"(--[\w-]+):", dark[: dark.index("box-sizing")]))
    assert set(re.findall(r"var\((--[\w-]+)\)", page)) <= names


def test_obligations_of_every_cut(recognised: str) -> None:
    cuts = load_contract("enc0").cuts
    for rule in cuts:
        assert f"<h2>Cut {rule.name}</h2>" in recognised
    assert recognised.count('<span class="ok">pass</span>') == 7 * len(cuts)
    assert "all 22 phases equal the contract" in recognised


def test_names_are_escaped() -> None:
    assert "<b>x" not in report_page([], "<b>x")


def test_command(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    run = CliRunner().invoke(main, ["inspect", str(corpus("enc1")), "--html", str(target)])
    assert run.exit_code == 0, run.output
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [target]


@pytest.fixture(scope="module")
def artefacts() -> Path:
    """Screenshots stay here to be looked at; `make clean` removes them."""
    folder = Path(__file__).parents[2] / "build" / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def screenshot(page: str, scheme: str, target: Path, folder: Path) -> bytes:
    source = folder / "page.html"
    source.write_text(page, encoding="utf-8")
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1240,4600",
        f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
        f"--user-data-dir={folder / 'profile'}",
        f"--screenshot={target}",
        source.as_uri(),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target.read_bytes()


def corner(png: bytes) -> tuple[int, ...]:
    """Colour of the first pixel: under every PNG filter the first pixel of the first row is stored as it is."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", png[16:24]) == (1240, 4600)
    at, packed = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        packed += png[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    return tuple(zlib.decompress(packed)[1:4])


@pytest.mark.skipif(BROWSER is None, reason="no Chromium in PATH: the page is not looked at")
def test_in_a_browser(page: str, tmp_path: Path, artefacts: Path) -> None:
    """The page is drawn in both colour schemes; a page without content makes a picture of a twentieth of the size."""
    light = screenshot(page, "light", artefacts / "enc1-light.png", tmp_path)
    dark = screenshot(page, "dark", artefacts / "enc1-dark.png", tmp_path)
    empty = screenshot(report_page([], "empty"), "light", tmp_path / "empty.png", tmp_path)
    assert corner(light) == corner(empty) == (0xF7, 0xF8, 0xFA)
    assert corner(dark) == (0x12, 0x15, 0x1B)
    assert min(len(light), len(dark)) > 20 * len(empty)
