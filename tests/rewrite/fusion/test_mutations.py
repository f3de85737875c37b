"""A wrong rule and a wrong helper must show: each mutation changes the bytes of a kernel that is equal without it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from zluda_rr.resources import resource_dir
from zluda_rr.rewrite import Verdict
from zluda_rr.rewrite.patterns import read_rules

from .cases import CHAIN, compare
from .test_chains import CASES, PACKED, packed

RULES = (resource_dir("rules") / "fragment-consumer.rule").read_text()
WRONG_RULES = {
    "butterfly 1": ("mov.b32 $d, $v~;", "mov.b32 $d, $v;"),
    "butterfly 2": ("bfly.b32 $v, 2, 31, -1;", "bfly.b32 $v, 1, 31, -1;"),
    "residual": ("$c0, $g0, $c1, $g1);", "$g0, $c0, $c1, $g1);"),
    "transpose": ("zrr_fc_product_zero0($a0, $a1, $a2, $a3, $b0", "zrr_fc_product_zero0($a1, $a0, $a2, $a3, $b0"),
    "relu": ("zrr_fc_pack_relu($x, $y)", "zrr_fc_pack($x, $y)"),
    "square": ("mul.f16x2 $d, $x, $x;", "add.f16x2 $d, $x, $x;"),
    "plain": ("$e0 = zrr_fc_product1", "$e0 = zrr_fc_product0"),
}
WRONG_HELPERS = {
    "lane": ("(l & 1) << 2 | (l & 16) >> 3 | x", "(l & 1) << 2 | x << 1 | (l & 16) >> 4"),
    "clamp": ("splat(448.0f))", "splat(240.0f))"),
    "order of the WMMAs": ("k32_e4m3(seed, r0, c0, r1, c1)", "k32_e4m3(seed, r1, c0, r0, c1)"),
    "seeds": ("as_half2(s1), as_half2(s2)", "as_half2(s2), as_half2(s1)"),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_a_wrong_rule_shows(name: str) -> None:
    right, wrong = WRONG_RULES[name]
    assert right in RULES
    rules = read_rules(RULES.replace(right, wrong, 1))
    if name == "butterfly 2":  # the wrong rule is for the other exchange: take the right one for that away
        rules = tuple(rule for rule in rules if rule.name != "butterfly_1")
        name = "butterfly 1"
    text = packed(name) if name in PACKED else CASES[name]
    assert not compare(text, rules=rules, validate=lambda *_: Verdict(True, None)).equal
    refused = compare(text, rules=rules)  # and the validator does not let it out
    assert refused.equal
    assert "not shown equal" in (refused.result.left or "")


@pytest.mark.parametrize("name", WRONG_HELPERS)
def test_a_wrong_helper_shows(name: str, tmp_path: Path) -> None:
    right, wrong = WRONG_HELPERS[name]
    shutil.copytree(resource_dir("kernels"), tmp_path / "kernels")
    body = tmp_path / "kernels" / "fragment_consumer.hip"
    source = body.read_text()
    assert right in source
    body.write_text(source.replace(right, wrong))
    assert not compare(CHAIN, body=body).equal


def test_nvidias_fragments_straight_into_the_products_are_wrong(tmp_path: Path) -> None:
    """Seed 002, "Rejected direct-converter route": without the exchanges the types match and the data do not."""
    shutil.copytree(resource_dir("kernels"), tmp_path / "kernels")
    body = tmp_path / "kernels" / "fragment_consumer.hip"
    source = body.read_text()
    for start, straight in (
        ("to_wmma(uint32_t v0, uint32_t v1, uint32_t x) {", "return x ? v1 : v0;"),
        ("to_nvidia(uint32_t x0, uint32_t x1, uint32_t pair) {", "return pair ? x1 : x0;"),
    ):
        assert start in source
        source = source.replace(start, f"{start} {straight}")
    body.write_text(source)
    outcome = compare(CHAIN, body=body)
    assert (outcome.original != outcome.fused).mean() > 0.5
