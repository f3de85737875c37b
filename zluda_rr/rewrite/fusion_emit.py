"""The PTX text of a fusion plan: an edit of single statements in the text, and the declarations it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from zluda_rr.ptx import Module, Statement, parse, print_module

from .fusion_plan import Plan, lower_place
from .fusion_reload import Reload, prelude, reload_of
from .fusion_view import KernelView
from .fusion_words import Step
from .patterns import CAPTURE_USE, Match, Value

_WORD = re.compile(r"[%$\w.]+")
_CALL = re.compile(r"(\S+) = (zrr_\w+)\((.*)\);\Z")


@dataclass(slots=True)
class _Text:
    """New text of one statement, with what stands in front of it and behind it. None: unchanged."""

    before: list[str] = field(default_factory=list)
    text: str | None = None
    after: list[str] = field(default_factory=list)


class Writer:
    """Writes one kernel's plan."""

    def __init__(self, view: KernelView, plan: Plan) -> None:
        self._view = view
        self._plan = plan
        self._texts: dict[int, _Text] = {}
        self._registers = 0
        self._halves = 0
        self._addresses = 0
        self._steps: set[int] = set()
        self._called: dict[str, int] = {}
        self._lifted: dict[tuple[Value, Value], list[tuple[int, tuple[str, str]]]] = {}
        self._nvidia: dict[Value, str] = {}
        self.exchanges = 0

    def write(self, module: Module, entry: str) -> Module:
        """The rewritten module."""
        self._lower()
        for step in sorted(dict.fromkeys(self._plan.steps.values()), key=lambda step: step.at):
            self._step(step)
        for number, match in self._plan.packs.items():
            self._pack(number, match)
        self._outsiders()
        return self._splice(module, entry)

    def _at(self, number: int) -> _Text:
        return self._texts.setdefault(number, _Text())

    def _register(self) -> str:
        self._registers += 1
        return f"%zrr_w{self._registers - 1}"

    # ------------------------------------------------------------------------------------------------------ exchanges

    def _lower(self) -> None:
        """Words that other code reads, brought into NVIDIA's order once, behind their definition."""
        for value, other in self._plan.lowered:
            place = self._at(lower_place(self._plan, value, other))
            sources, lead = self._wide(value.register, other.register)
            place.after += lead
            for side, member in enumerate((value, other)):
                place.after += self._into(member, f"zrr_fc_lower{side}", sources)
            self.exchanges += 2

    def _into(self, member: Value, function: str, arguments: list[str]) -> list[str]:
        target = self._register()
        lines = self._call(target, function, arguments)
        name, more = self._narrow(member.register, target)
        self._nvidia[member] = name
        return lines + more

    def _wide(self, *registers: str) -> tuple[list[str], list[str]]:
        """32-bit registers with the values, and the statements that make them."""
        names, lines = [], []
        for register in registers:
            if self._view.width(register) == 32:
                names.append(register)
            else:
                names.append(self._register())
                lines.append(f"mov.b32 {names[-1]}, {{{register}, {register}}};")
        return names, lines

    def _narrow(self, like: str, register: str) -> tuple[str, list[str]]:
        """A register as wide as `like` with the low bits of a 32-bit one."""
        if self._view.width(like) == 32:
            return register, []
        self._halves += 2
        low, high = f"%zrr_h{self._halves - 2}", f"%zrr_h{self._halves - 1}"
        return low, [f"mov.b32 {{{low}, {high}}}, {register};"]

    def _lift(self, pair: tuple[Value, Value], at: int) -> tuple[str, str]:
        """Registers with a pair of NVIDIA's values in WMMA order, in front of statement `at` or before."""
        for place, names in self._lifted.get(pair, ()):
            if place == at or self._view.dominates(place, at):
                return names
        again = reload_of(self._view, pair)
        if again is not None:
            return self._reload(pair, again)
        registers = [self._nvidia.get(value, value.register) for value in pair]
        known = all(register in self._view.body.registers for register in registers)
        sources, lines = self._wide(*registers) if known else (registers, [])
        targets = []
        for side, value in enumerate(pair):
            target = self._register()
            lines += self._call(target, f"zrr_fc_lift{side}", sources)
            name, more = self._narrow(value.register, target)
            targets.append(name)
            lines += more
        self._at(at).before += lines
        self._lifted.setdefault(pair, []).append((at, (targets[0], targets[1])))
        self.exchanges += 2
        return targets[0], targets[1]

    def _reload(self, pair: tuple[Value, Value], again: Reload) -> tuple[str, str]:
        targets = self._register(), self._register()
        self._addresses += 1
        self._steps.add(again.step)
        self._at(again.statement).after += again.lines(f"%zrr_a{self._addresses - 1}", targets)
        self._lifted.setdefault(pair, []).append((again.statement, targets))
        return targets

    # ---------------------------------------------------------------------------------------------------------- steps

    def _step(self, step: Step) -> None:
        names = {pair: self._lift(pair, step.at) for pair in step.lifts}
        if len(step.matches) == 1:
            (match,) = step.matches
            # By capture, not by value: both members of a pair may be one register.
            lifted: dict[str, str] = {}
            for condition in step.rule.of_kind("siblings"):
                first, second = (match.captures[name] for name in condition.names)
                if isinstance(first, Value) and isinstance(second, Value) and (first, second) in names:
                    lifted.update(zip(condition.names, names[first, second], strict=True))
            self._template(step, match, lifted)
            return
        for side, match in enumerate(step.matches):
            replaced = {pair[side]: targets[side] for pair, targets in names.items()}
            if step.rule.template:
                terms = match.captures.items()
                self._template(
                    step, match, {n: replaced[t] for n, t in terms if isinstance(t, Value) and t in replaced}
                )
            elif replaced:
                number = match.statements[0]
                self._at(number).text = self._renamed(self._view.statement(number), replaced)

    def _template(self, step: Step, match: Match, replaced: Mapping[str, str]) -> None:
        own = [n for n in match.statements if self._plan.steps.get(n) is step]
        for number in own:
            self._at(number).text = ""
        place = step.at if len(step.matches) == 1 else own[0]
        self._at(place).text = "\n\t".join(self._filled(match, replaced))

    def _pack(self, number: int, match: Match) -> None:
        for own in match.replaced:
            self._at(own).text = ""
        self._at(number).text = "\n\t".join(self._filled(match, {}))

    def _filled(self, match: Match, replaced: Mapping[str, str]) -> list[str]:
        lines: list[str] = []
        for template in match.rule.template:
            line = CAPTURE_USE.sub(lambda found: self._name(match, found[1], bool(found[2]), replaced), template)
            call = _CALL.match(line)
            lines += [line] if call is None else self._call(call[1], call[2], [a.strip() for a in call[3].split(",")])
        return lines

    def _name(self, match: Match, name: str, sibling: bool, replaced: Mapping[str, str]) -> str:
        term = match.captures[name]
        if isinstance(term, Value):
            return self._plan.words.siblings[term].register if sibling else replaced.get(name, term.register)
        return str(getattr(term, "text", None) or getattr(term, "name", ""))

    def _call(self, target: str, function: str, arguments: list[str]) -> list[str]:
        self._called[function] = len(arguments)
        lines = ["{"]
        for i, argument in enumerate(arguments):
            lines += [f".param .b32 zrr_p{i};", f"st.param.b32 [zrr_p{i}], {argument};"]
        names = ", ".join(f"zrr_p{i}" for i in range(len(arguments)))
        lines += [".param .b32 zrr_r;", f"call.uni (zrr_r), {function}, ({names});", f"ld.param.b32 {target}, [zrr_r];"]
        return [*lines, "}"]

    # ------------------------------------------------------------------------------------------------------ the others

    def _outsiders(self) -> None:
        """Statements outside the plan read NVIDIA's view of the words."""
        readers: dict[int, dict[Value, str]] = {}
        for pair in self._plan.lowered:
            for value in pair:
                for number in self._view.readers(value):
                    if number not in self._plan.steps:
                        readers.setdefault(number, {})[value] = self._nvidia[value]
        for number, replaced in readers.items():
            self._at(number).text = self._renamed(self._view.statement(number), replaced)

    @staticmethod
    def _renamed(statement: Statement, replaced: Mapping[Value, str]) -> str:
        """The statement's text with other registers read. Results keep their names: a value is written once."""
        names = {value.register.partition("@")[0]: name for value, name in replaced.items()}
        return _WORD.sub(lambda found: names.get(found[0], found[0]), statement.text)

    def _splice(self, module: Module, entry: str) -> Module:
        text = print_module(module)
        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        pieces: list[tuple[int, int, str]] = []
        for number, new in self._texts.items():
            statement = self._view.statement(number)
            assert statement.instruction is not None
            begin = starts[statement.instruction.span.line - 1] + statement.instruction.span.column - 1
            old = statement.text
            assert text.startswith(old, begin), f"s{number} is not where its span says"
            body = old if new.text is None else new.text
            parts = [*new.before, *([body] if body else []), *new.after]
            pieces.append((begin, begin + len(old), "\n\t".join(parts)))
        head = re.search(rf"\.entry\s+{re.escape(entry)}\b[^{{]*{{", text)
        assert head is not None
        declared = {function.name for function in module.functions}
        externs = "".join(_extern(name, count) for name, count in sorted(self._called.items()) if name not in declared)
        line_start = text.rfind("\n", 0, head.start()) + 1
        pieces.append((line_start, line_start, externs))
        registers = f"\n\t.reg .b32 %zrr_w<{self._registers}>;" if self._registers else ""
        registers += f"\n\t.reg .b16 %zrr_h<{self._halves}>;" if self._halves else ""
        registers += f"\n\t.reg .b64 %zrr_a<{self._addresses}>;" if self._addresses else ""
        pieces.append((head.end(), head.end(), registers + prelude(tuple(sorted(self._steps)))))
        out, at = [], 0
        for begin, end, new_text in sorted(pieces):
            out += [text[at:begin], new_text]
            at = end
        return parse("".join((*out, text[at:])), filename=module.filename)


def _extern(name: str, count: int) -> str:
    parameters = ",\n".join(f"\t.param .b32 {name}_param_{i}" for i in range(count))
    return f".extern .func  (.param .b32 {name}_result) {name}\n(\n{parameters}\n)\n;\n"
