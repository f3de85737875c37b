"""Where values of different definitions meet (pruned phi places), and where the whole warp is together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zluda_rr.ptx import Body, ControlFlow, Statement

FLAG = "%cc"
"""The condition code register of add.cc and the like (PTX ISA 9.7.2), handled as a register."""
_FLAG_READERS = frozenset({"addc", "subc", "madc"})
_ALIGNED = frozenset({"mma", "movmatrix", "ldmatrix", "stmatrix"})


def written(statement: Statement) -> tuple[str, ...]:
    """Registers that a statement may write, the flag included: a call leaves it unknown (PTX ISA 9.7.2). An unknown
    instruction may write all that it names.
    """
    found = statement.defs if statement.known else statement.uses
    return (*found, FLAG) if "cc" in statement.modifiers or statement.opcode == "call" else found


def read(statement: Statement) -> tuple[str, ...]:
    """Registers that a statement reads, the flag included."""
    return (*statement.uses, FLAG) if statement.opcode in _FLAG_READERS else statement.uses


def phi_places(body: Body, flow: ControlFlow) -> Mapping[int, frozenset[str]]:
    """For each reachable block where paths meet: registers that are read behind and that a path may have changed since
    the block's immediate dominator.
    """
    reads, kills, defs = _summaries(body, flow)
    live = _live_in(flow, reads, kills)
    found: dict[int, frozenset[str]] = {}
    for block in range(len(flow.blocks)):
        before = [p for p in flow.predecessors[block] if flow.is_reachable(p)]
        if not flow.is_reachable(block) or (len(before) < 2 and not (block == 0 and before)):
            continue
        between = _between(flow, block)
        changed = set().union(*(defs[b] for b in between))
        found[block] = frozenset(changed & live[block])
    return found


def _between(flow: ControlFlow, block: int) -> set[int]:
    """Blocks on paths from the immediate dominator to a block, without the dominator itself."""
    top = flow.immediate_dominator(block)
    seen: set[int] = set()
    pending = [p for p in flow.predecessors[block] if flow.is_reachable(p)]
    while pending:
        here = pending.pop()
        if here == top or here in seen:
            continue
        seen.add(here)
        pending += [p for p in flow.predecessors[here] if flow.is_reachable(p)]
    return seen


def _summaries(body: Body, flow: ControlFlow) -> tuple[list[set[str]], list[set[str]], list[set[str]]]:
    """For each block: registers read before they are certainly written, certainly written, possibly written."""
    reads: list[set[str]] = []
    kills: list[set[str]] = []
    defs: list[set[str]] = []
    for block in flow.blocks:
        exposed: set[str] = set()
        killed: set[str] = set()
        changed: set[str] = set()
        for statement in body.statements[block.start - 1 : block.end]:
            if statement.instruction is None:
                continue
            for register in read(statement):
                if register not in killed:
                    exposed.add(register)
            new = written(statement)
            if statement.guard is None and statement.known:
                killed.update(new)
            changed.update(new)
        reads.append(exposed)
        kills.append(killed)
        defs.append(changed)
    return reads, kills, defs


def _live_in(flow: ControlFlow, reads: Sequence[set[str]], kills: Sequence[set[str]]) -> list[set[str]]:
    """Backward data flow over blocks."""
    live = [set(r) for r in reads]
    pending = list(range(len(live)))
    while pending:
        block = pending.pop()
        out: set[str] = set().union(*(live[t] for t in flow.successors[block]))
        new = out - kills[block] - live[block]
        if new:
            live[block] |= new
            pending += flow.predecessors[block]
    return live


def together(body: Body, flow: ControlFlow) -> list[bool]:
    """Blocks that all lanes of a warp execute at the same time and equally often.

    That is a block with an `.aligned` warp instruction that has no guard, which "requires that all threads in the warp
    execute the same instruction" (PTX ISA, mma, movmatrix, ldmatrix), or one that every path passes once: it
    post-dominates the entry and lies on no cycle. In the second case lanes meet again there because a wave of gfx12
    has one program counter and its compiler joins the paths at the post-dominator.
    """
    found = []
    for block in flow.blocks:
        own = body.statements[block.start - 1 : block.end]
        aligned = any(s.opcode in _ALIGNED and "aligned" in s.modifiers and s.guard is None for s in own)
        once = flow.post_dominates(block.index, 0) and not flow.block_reaches(block.index, block.index)
        found.append(aligned or once)
    return found
