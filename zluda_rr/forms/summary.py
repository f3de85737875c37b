"""In a few words: which forms of a line of the table are taken and which are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

_MOST_PAIRS = 4

Words = tuple[str, ...]


def summarise(names: Sequence[str], taken: Mapping[Words, bool]) -> str:
    """`yes`, `no`, or the number of forms and what distinguishes them.

    `names` are the modifiers' names in the table ("" for an unnamed one), `taken` says for the words of each form
    whether it is taken. First the words that never are, then the pairs of words that never are together.
    """
    yes = [words for words, accepted in taken.items() if accepted]
    if len(yes) == len(taken):
        return "yes"
    if not yes:
        return "no"
    places = range(len(names))
    used = [{words[place] for words in yes} for place in places]
    parts = [_words(names[place], used[place], _choices(taken, place)) for place in places]
    rest = [words for words in taken if all(words[place] in used[place] for place in places)]
    pairs = _pairs(names, yes, rest) if len(rest) > len(yes) else []
    text = "; ".join([part for part in parts if part] + pairs)
    return f"{len(yes)} of {len(taken)}" + (f": {text}" if text else "")


def _choices(taken: Mapping[Words, bool], place: int) -> list[str]:
    return list(dict.fromkeys(words[place] for words in taken))


def _shown(words: Sequence[str]) -> str:
    """Words as in a module, `–` for an absent modifier."""
    return " ".join(f".{word}" if word else "–" for word in words)


def _words(name: str, used: set[str], choices: Sequence[str]) -> str:
    """Which of a modifier's words occur at all; "" when all do."""
    kept = [word for word in choices if word in used]
    refused = [word for word in choices if word not in used]
    if not refused:
        return ""
    label = f"{name} " if name else ""
    if not kept or (kept == [""]) or (len(refused) <= len(kept) and "" not in refused):
        return f"{label}not {_shown(refused)}"
    return f"{label}only {_shown(kept)}"


def _pairs(names: Sequence[str], yes: Sequence[Words], rest: Sequence[Words]) -> list[str]:
    """Pairs of words that occur, each in some form that is taken, but never together."""
    found: list[str] = []
    left = set(rest) - set(yes)
    for first, second in combinations(range(len(names)), 2):
        if not left:
            break
        together = {(words[first], words[second]) for words in yes}
        never: dict[str, list[str]] = {}
        for a, b in dict.fromkeys((words[first], words[second]) for words in rest):
            if (a, b) not in together:
                never.setdefault(a, []).append(b)
        groups: dict[Words, list[str]] = {}
        for a, others in never.items():
            groups.setdefault(tuple(others), []).append(a)
        found += [f"not {_shown(left_words)} with {_shown(right)}" for right, left_words in groups.items()]
        left = {words for words in left if (words[first], words[second]) in together}
    if len(found) > _MOST_PAIRS:
        return [*found[:_MOST_PAIRS], "and more"]
    return [*found, "and more"] if left else found
