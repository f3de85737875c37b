from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.rewrite.variants import shuffle
from zluda_rr.contract import LayerContract, load_contract
from zluda_rr.image import read_ptx
from zluda_rr.ptx import Module, parse
from zluda_rr.resources import resource_dir
from zluda_rr.rewrite import CutPlan, LayerMatch, RewriteResult, match_entry, rewrite_module

Captured = Callable[[tuple[str, ...]], RewriteResult]
Others = Callable[[str], RewriteResult]


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


@pytest.fixture(scope="session")
def captured(enc0: Module, contract: LayerContract) -> Captured:
    """The module with capture, by cuts."""
    return cache(lambda cuts: rewrite_module(enc0, contract, cuts, capture=True))


@pytest.fixture(scope="session")
def others(contract: LayerContract) -> Others:
    """Another build of the module, rewritten, by name."""
    return cache(lambda name: rewrite_module(parse(read_ptx(corpus(name))), contract, ("phase8",)))


@pytest.fixture(scope="session", params=(0, 3))
def shuffled(request: pytest.FixtureRequest, enc0: Module, contract: LayerContract) -> RewriteResult:
    """The module in another order of independent statements, rewritten."""
    return rewrite_module(shuffle(enc0, contract.entry, request.param), contract, ("phase8",))
