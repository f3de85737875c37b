"""The modules of the second source are what it gives."""

import pytest

from .build import compress
from .second.build import OUTPUT, SOURCE, VARIANTS, Variant, build, digest, module_path, read, recorded

REBUILT = [
    pytest.param(v, id=v.name, marks=[] if v.name == "nvcc13.0-sm89" else [pytest.mark.soak])
    for v in VARIANTS
    if v.compiler == "nvcc13.0"
]


def test_the_manifest_is_of_this_source_and_these_modules() -> None:
    found = recorded()
    assert found["source"] == digest(SOURCE.read_text())
    assert found["modules"] == {v.name: digest(read(v)) for v in VARIANTS}
    assert sorted(p.name for p in OUTPUT.glob("*.xz")) == sorted(module_path(v).name for v in VARIANTS)


@pytest.mark.parametrize("variant", REBUILT)
def test_the_source_gives_the_committed_bytes(variant: Variant) -> None:
    text = build(variant)
    assert text == read(variant)
    assert compress(text) == module_path(variant).read_bytes()


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_names_its_target_and_its_products(variant: Variant) -> None:
    text = read(variant)
    assert f".target sm_{variant.arch}" in text
    assert text.count("mma.sync") == 536
    assert ".local" not in text
