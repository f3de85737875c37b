from collections.abc import Callable
from pathlib import Path

import pytest

from zluda_rr.image import read_ptx
from zluda_rr.ptx import Module, parse
from zluda_rr.resources import resource_dir
from zluda_rr.rewrite import (
    CutPlan,
    LayerContract,
    LayerMatch,
    RewriteResult,
    load_contract,
    match_entry,
    rewrite_module,
)

Edit = Callable[[str], str]


def corpus(name: str) -> Path:
    return resource_dir("modules") / f"{name}.ptx.xz"


@pytest.fixture(scope="session")
def contract() -> LayerContract:
    return load_contract("enc0")


@pytest.fixture(scope="session")
def enc0_text() -> str:
    return read_ptx(corpus("enc0"))


@pytest.fixture(scope="session")
def enc0(enc0_text: str) -> Module:
    return parse(enc0_text, filename="enc0.ptx")


@pytest.fixture(scope="session")
def match(enc0: Module, contract: LayerContract) -> LayerMatch:
    return match_entry(enc0, contract)


@pytest.fixture(scope="session")
def rewritten(enc0: Module, contract: LayerContract) -> RewriteResult:
    return rewrite_module(enc0, contract, ("phase8",))


@pytest.fixture(scope="session")
def plan(rewritten: RewriteResult) -> CutPlan:
    return rewritten.plans[0]
