"""The PTX text of a fusion plan: an edit of single statements in the text, and the declarations it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from zluda_rr.errors import UserError
from zluda_rr.ptx import Function, Module, Statement, rename_reads, replace_statements

from .fusion_plan import Plan, lower_place
from .fusion_reload import Reload, prelude, reload_of
from .fusion_view import KernelView
from .fusion_words import Step
from .patterns import CAPTURE_USE, Match, Value

_CALL = re.compile(r"(\S+) = (zrr_\w+)\((.*)\);\Z")  # a line of a rule's template
# Names that the inserted text declares. Those of the prelude may be hidden in a scope, as a cut's call declares some.
_OWN = re.compile(
    r"%zrr_(?:[whas]|om?)\d+(?:@|\Z)|%zrr_both|%zrr_(?:own|lane|from|bit)\Z|zrr_(?:p\d+|r)(?:@|\Z)|zrr_fc_"
)


class UnwritableError(UserError):
    """The plan is right and has no text: the message says which register cannot be named where."""


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
            number = lower_place(self._plan, value, other)
            place = self._at(number)
            sources, lead = self._wide(number, value.register, other.register)
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

    def _wide(self, number: int, *registers: str) -> tuple[list[str], list[str]]:
        """32-bit registers with the values at a statement, and the lines that make them."""
        names, lines = [], []
        for register in registers:
            name = self._written(number, register)
            if self._view.width(register) == 32:
                names.append(name)
            else:
                names.append(self._register())
                lines.append(f"mov.b32 {names[-1]}, {{{name}, {name}}};")
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
        sources: list[str] = []
        lines: list[str] = []
        for value in pair:
            found, lead = self._source(value, at)
            sources += found
            lines += lead
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

    def _source(self, value: Value, at: int) -> tuple[list[str], list[str]]:
        """A 32-bit register with a value in NVIDIA's order at a statement, and the lines that make it."""
        name = self._nvidia.get(value)
        if name is None:
            return self._wide(at, value.register)
        if self._view.width(value.register) == 32:
            return [name], []
        wide = self._register()
        return [wide], [f"mov.b32 {wide}, {{{name}, {name}}};"]

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
        self._at(place).text = "\n\t".join(self._filled(match, replaced, place))

    def _pack(self, number: int, match: Match) -> None:
        for own in match.replaced:
            self._at(own).text = ""
        place = match.statements[match.rule.anchor]
        self._at(place).text = "\n\t".join(self._filled(match, {}, place))

    def _filled(self, match: Match, replaced: Mapping[str, str], place: int) -> list[str]:
        lines: list[str] = []
        for template in match.rule.template:
            line = CAPTURE_USE.sub(lambda found: self._name(match, found, replaced, place), template)
            call = _CALL.match(line)
            lines += [line] if call is None else self._call(call[1], call[2], [a.strip() for a in call[3].split(",")])
        return lines

    def _name(self, match: Match, found: re.Match[str], replaced: Mapping[str, str], place: int) -> str:
        """Text of `$x` or `$x~` of a template that stands at a statement."""
        term = match.captures[found[1]]
        if isinstance(term, Value):
            if found[2]:
                return self._written(place, self._plan.words.siblings[term].register)
            return replaced.get(found[1]) or self._written(place, term.register)
        text = str(getattr(term, "text", None) or getattr(term, "name", ""))
        if "@" in text or not text:
            raise UnwritableError(f"s{place}: {term} has no text there")
        return text

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
        try:
            return rename_reads(statement, {value.register: name for value, name in replaced.items()})
        except ValueError as error:
            raise UnwritableError(str(error)) from error

    def _written(self, number: int, register: str) -> str:
        """A register of the kernel as text at a statement names it."""
        name = self._view.scopes.written(number, register)
        if name is None:
            raise UnwritableError(f"s{number} is in a scope where {register.partition('@')[0]} is another register")
        return name

    def _splice(self, module: Module, entry: str) -> Module:
        texts: dict[int, str] = {}
        for number, new in self._texts.items():
            body = self._view.statement(number).text if new.text is None else new.text
            texts[number] = "\n\t".join((*new.before, *([body] if body else []), *new.after))
        externs = []
        for name, count in sorted(self._called.items()):
            there = module.function(name)
            if there is None:
                externs.append(_extern(name, count))
            elif not _is_helper(there, count):
                raise UnwritableError(f"the module has a function {name} of its own")
        counts = (("b32", "w", self._registers), ("b16", "h", self._halves), ("b64", "a", self._addresses))
        registers = [f"\t.reg .{kind} %zrr_{name}<{count}>;" for kind, name, count in counts if count]
        head = "\n".join((*registers, *prelude(tuple(sorted(self._steps)))))
        return replace_statements(module, entry, texts, at_start=head, in_front="".join(externs))


def _extern(name: str, count: int) -> str:
    parameters = ",\n".join(f"\t.param .b32 {name}_param_{i}" for i in range(count))
    return f".extern .func  (.param .b32 {name}_result) {name}\n(\n{parameters}\n)\n;\n"


def unwritable(view: KernelView) -> str | None:
    """Why nothing can be written into a kernel: names that the inserted text uses. None where it can."""
    names = (*view.body.registers, *view.body.variables, *view.body.labels)
    taken = next((name for name in names if _OWN.match(name)), None)
    if taken is not None:
        return f"it uses the name {taken.partition('@')[0]} itself"
    return None


def _is_helper(function: Function, count: int) -> bool:
    """Is a function the declaration that `_extern` writes."""
    words = all(p.type == "b32" and p.count == 1 for p in (*function.params, *function.returns))
    return function.body is None and words and (len(function.returns), len(function.params)) == (1, count)
