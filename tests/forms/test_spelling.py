"""The forms of the table: all of them, each once, each a statement that the front end reads as what it is."""

from zluda_rr.forms import probe_kernel, probe_of, spellings
from zluda_rr.ptx import isa, linearise, parse


def test_every_line_and_every_word_of_the_table_occurs() -> None:
    found: dict[str, list[set[str]]] = {}
    for spelling in spellings():
        sets = found.setdefault(spelling.pattern.syntax, [set() for _ in spelling.words])
        for words, word in zip(sets, spelling.words, strict=True):
            words.add(word)
    # Two lines whose every form an earlier line has: `cvt.rn.f16.f32` and those of the half precision group.
    missing = [pattern.syntax for pattern in isa.patterns() if pattern.syntax not in found]
    assert not missing
    for pattern in isa.patterns():
        if pattern.opcode not in ("set", "setp", "cvt", "mma"):
            expected = [{*m.words, *([""] if m.optional else [])} for m in pattern.modifiers]
            assert found[pattern.syntax] == expected, pattern.syntax


def test_no_form_occurs_twice() -> None:
    names = [(spelling.name, spelling.operands) for spelling in spellings()]
    assert len(names) == len(set(names)) > 30_000


def test_probes_are_the_statements_that_they_say() -> None:
    probes = [probe_of(spelling) for spelling in spellings()[::7]]
    kernel = probe_kernel(probes)
    module = parse(kernel.text)
    body = linearise(module.entries[0], module)
    assert [body[line].spelling for line in kernel.lines] == [probe.spelling.name for probe in probes]
    assert all(body[line].known for line in kernel.lines)
