"""The front end's time grows with the module, not faster."""

import re
import time

import pytest

from tests.ptx.modules import CORPUS, read
from zluda_rr.ptx import ControlFlow, DefUse, Liveness, linearise, parse


def repeated(text: str, times: int) -> str:
    """The kernel's body `times` over, each copy with registers and labels of its own."""
    start, end = text.index("\n{\n") + 3, text.rindex("\n}")
    first = text.index("\tmov.b64", start)
    declarations, code = text[start:first], re.sub(r"\n\tret;\n", "\n", text[first:end])
    counts = {prefix: int(count) for prefix, count in re.findall(r"%(\w+)<(\d+)>", declarations)}
    declarations = re.sub(r"%(\w+)<(\d+)>", lambda m: f"%{m[1]}<{int(m[2]) * times}>", declarations)
    names = "|".join(sorted(counts, key=len, reverse=True))

    def copy(index: int) -> str:
        shifted = re.sub(rf"%({names})(\d+)\b", lambda m: f"%{m[1]}{int(m[2]) + index * counts[m[1]]}", code)
        return shifted.replace("$L__BB0_", f"$L__BB{index}_")

    return text[:start] + declarations + "\n".join(map(copy, range(times))) + "\n\tret;\n" + text[end:]


def seconds(text: str) -> float:
    """Processor time of everything the front end does with a module; the best of three."""
    return min(once(text) for _ in range(3))


def once(text: str) -> float:
    begin = time.process_time()
    module = parse(text)
    body = linearise(module.entries[0], module)
    flow = ControlFlow(body)
    chains, liveness = DefUse(body, flow), Liveness(body, flow)
    for statement in body.statements:
        for register in statement.uses:
            chains.reaching(statement.number, register)
    liveness.live_in(len(body.statements) // 2)
    return time.process_time() - begin


@pytest.mark.soak
def test_time_is_linear_in_the_module() -> None:
    text = read(CORPUS / "enc0.ptx.xz")
    small, large = repeated(text, 1), repeated(text, 6)
    lines = large.count("\n") / small.count("\n")
    ratio = seconds(large) / seconds(small)
    print(f"{small.count(chr(10))} to {large.count(chr(10))} lines: {ratio / lines:.2f} of linear")
    assert ratio < 1.6 * lines


def test_a_large_module_is_one_function() -> None:
    text = repeated(read(CORPUS / "enc0.ptx.xz"), 2)
    module = parse(text)
    body = linearise(module.entries[0], module)
    assert sum(s.opcode == "mma" for s in body.statements) == 2 * 536
    assert Liveness(body, ControlFlow(body)).live_in(1) == frozenset()
