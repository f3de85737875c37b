"""Every relative link of the pages leads somewhere, and every citation of the rules to an entry of docs/reference."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
CITING = sorted([*ROOT.glob("rules/*.toml"), *ROOT.glob("rules/*.rule"), *ROOT.glob("zluda_rr/contract/*.py")])
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("kernels/*.md"), *ROOT.glob("tests/**/README.md")]
)


def links(page: Path) -> Iterator[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    yield from re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text))


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_there_are_pages() -> None:
    assert len(PAGES) > 15


def citations(text: str) -> Iterator[tuple[str, str]]:
    """(record, places) of `[1 E5]`, `[D 13, 41]`, `[M]`; a bare number in brackets is a citation in comments only."""
    for line in text.splitlines():
        comment = line.partition("#")[2]
        yield from re.findall(r"\[([012])\]()", comment)
        yield from re.findall(r"\[([MD])\]()", line)
        yield from re.findall(r"\[([012]) ([§A-Z][^\]]*)\]", line)
        yield from re.findall(r"\[([MD]) ([§\d][^\]]*)\]", line)


def entries() -> set[str]:
    """What can be cited: `D 12`, `1 E5`, `M`, …"""
    page = (REFERENCE / "README.md").read_text()
    items = re.findall(r"^(\d+)\. ", (REFERENCE / "rr-details.md").read_text(), re.M)
    sections = re.findall(r"^\| `([012] [^`]+)` \|", page, re.M)
    return {"M", "0", "1", "2", "D", *(f"D {item}" for item in items), *sections}


def unresolved(text: str) -> list[str]:
    known = entries()
    return [
        name
        for record, places in citations(text)
        for place in ([part.strip() for part in places.split(",")] if places else [""])
        if (name := f"{record} {place}".strip()) not in known
    ]


@pytest.mark.parametrize("path", CITING, ids=lambda p: p.name)
def test_citations_resolve(path: Path) -> None:
    assert unresolved(path.read_text()) == []


def test_every_record_is_cited() -> None:
    found = {record for path in CITING for record, _ in citations(path.read_text())}
    assert found == {"0", "1", "2", "M", "D"}


@pytest.mark.parametrize(
    "text", ["x  # [D 99]", '"""f16 [1 E77]."""', "[0 §1, §9]", 'source = "[2 Something else]"', "# [D 8, 900]"]
)
def test_a_citation_of_nothing_is_found(text: str) -> None:
    assert len(unresolved(text)) == 1


def test_subscripts_are_no_citations() -> None:
    assert list(citations("a[0][1] + b[m] + [2 * x for x in y] + c[1, 2]")) == []
