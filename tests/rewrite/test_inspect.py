"""`inspect`: complete, at most 100 columns wide, quick, and stable for programs."""

import time

import pytest

from zluda_rr.contract import LayerContract
from zluda_rr.ptx import PtxError, parse, print_module
from zluda_rr.rewrite import inspect_json, inspect_text, rewrite_module
from zluda_rr.rewrite.plan import OBLIGATIONS


@pytest.fixture(scope="module")
def report(enc0_text: str) -> str:
    return inspect_text(enc0_text, filename="enc0.ptx")


def test_time(enc0_text: str) -> None:
    start = time.process_time()
    inspect_text(enc0_text)
    assert time.process_time() - start < 5


def test_text_is_complete_and_narrow(report: str) -> None:
    lines = report.splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line[:2].strip().isdigit() and "s" in line for line in lines if line[:2].strip().isdigit()) >= 22
    assert "entry     cuda_dldn_engine_swin_enc0_kernel" in lines
    assert "layer     enc0: all 22 phases equal the contract" in lines
    assert "536 mma" in report
    for title in OBLIGATIONS:
        assert title in report
    assert report.count(" pass  ") == 14  # two cuts


def test_a_row_of_the_table(report: str) -> None:
    row = next(line for line in report.splitlines() if line.startswith(" 8  "))
    assert row.split()[2:] == ["24", "96x32x32", "norm", "D2*6272", "W", "0", "21696-22720"]


def test_json(enc0_text: str) -> None:
    data = inspect_json(enc0_text, filename="enc0.ptx")
    assert data["schema"] == "zluda-rr.inspect/1"
    (entry,) = data["entries"]  # type: ignore[misc]
    assert entry["equal"] is True
    assert (entry["mma"], len(entry["phases"])) == (536, 22)
    eighth = entry["phases"][7]
    assert (eighth["index"], eighth["mma"], eighth["M"], eighth["N"], eighth["K"]) == (8, 24, 96, 32, 32)
    assert eighth["B"] == {
        "kind": "weights",
        "text": "weights 21696..22720",
        "at": 21696,
        "nbytes": 1024,
        "order": "k-inner",
    }
    assert {"operand": "B", "first": 21696, "end": 22720} in eighth["weight_bytes"]
    cut, layer = entry["cuts"]
    assert [o["number"] for o in cut["obligations"]] == list(range(1, 8))
    assert all(o["holds"] and o["detail"] for o in cut["obligations"])
    assert cut["obligations"][5]["evidence"]
    assert (cut["phases"], layer["phases"]) == ([8], list(range(1, 23)))
    assert layer["applicable"]
    assert all(o["holds"] and o["detail"] for o in layer["obligations"])


def test_a_differing_kernel_is_shown_with_its_differences(enc0_text: str) -> None:
    text = inspect_text(enc0_text.replace(", 22208;", ", 22720;"))
    assert "phases differ from the contract" in text
    assert "8!" in text
    assert "differs: phase 8:" in text
    assert "7 FAIL" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_rewritten_module_can_be_inspected(enc0_text: str, contract: LayerContract) -> None:
    result = rewrite_module(parse(enc0_text), contract, ("phase8",))
    text = inspect_text(print_module(result.module))
    assert "phase 8: no mma belongs to it, the contract has 24" in text


def test_an_entry_without_a_rule(enc0_text: str) -> None:
    """Phases by adjacency: the same 22 products, recovered without a contract."""
    text = enc0_text.replace("cuda_dldn_engine_swin_enc0_kernel", "some_kernel")
    data = inspect_json(text)
    (entry,) = data["entries"]  # type: ignore[misc]
    assert entry["layer"] is None
    shapes = [(p["M"], p["N"], p["K"]) for p in entry["phases"]]
    assert len(shapes) == 22
    assert shapes[5] == (64, 32, 96)
    assert shapes[20] == (16, 64, 128)
    assert entry["phases"][7]["B"]["text"] == "weights 21696..22720"
    assert "no rule" in inspect_text(text)


def test_a_module_without_entries() -> None:
    text = ".version 9.0\n.target sm_89\n.address_size 64\n"
    assert inspect_json(text)["entries"] == []
    assert "0 entries" in inspect_text(text)


def test_not_ptx() -> None:
    with pytest.raises(PtxError):
        inspect_text("this is not PTX")
