"""Cross-lane instructions and barriers. One block is one wave32; every lane takes part in `.sync` instructions."""

from __future__ import annotations

from collections.abc import Mapping

from zluda_rr.lower.emitter import Emitter, pair_elements
from zluda_rr.lower.handler import Handler
from zluda_rr.ptx import Immediate, Statement


def shuffle(e: Emitter, s: Statement) -> None:
    """shfl.sync.{up,down,bfly,idx}.b32 d{|p}, a, b, c, mask; the mask is not looked at."""
    mods = e.modifiers(s)
    kinds = mods.types()
    mode = mods.take("up", "down", "bfly", "idx")
    sync = mods.flag("sync")
    e.finish(s, mods)
    if not sync or kinds != ["b32"] or not mode:
        raise e.refuse(s)
    target, value, b, c, _ = s.operands
    arguments = [("i32", e.integer(operand, 32)) for operand in (value, b, c)]
    both = e.call("<2 x i32>", f"zrt_shfl_{mode}", *arguments)
    word, inside = e.elements(both, "i32", 2)
    first, second = pair_elements(target)
    e.set(first, word, "b32")
    if second is not None:
        e.set(second, e.op(f"icmp ne i32 {inside}, 0"), "pred")


def transpose(e: Emitter, s: Statement) -> None:
    """movmatrix.sync.aligned.m8n8.trans.b16."""
    if set(s.modifiers) != {"sync", "aligned", "m8n8", "trans", "b16"}:
        raise e.refuse(s)
    target, source = s.operands
    e.set(target, e.call("i32", "zrt_movmatrix_trans", ("i32", e.integer(source, 32))), "b32")


def vote(e: Emitter, s: Statement) -> None:
    """vote.sync.{any,all,uni}.pred and .ballot.b32."""
    mods = e.modifiers(s)
    mode = mods.take("any", "all", "uni", "ballot")
    e.kind(s, mods, ("b32",) if mode == "ballot" else ("pred",))
    sync = mods.flag("sync")
    e.finish(s, mods)
    if not sync or not mode:
        raise e.refuse(s)
    target, source, _ = s.operands
    votes = e.call("i32", "llvm.amdgcn.ballot.i32", ("i1", e.integer(source, 1)))
    if mode == "ballot":
        e.set(target, votes, "b32")
        return
    some = e.op(f"icmp ne i32 {votes}, 0")
    active = e.call("i32", "llvm.amdgcn.ballot.i32", ("i1", "true"))
    every = e.op(f"icmp eq i32 {votes}, {active}")
    none = e.op(f"xor i1 {some}, true")
    result = {"any": some, "all": every, "uni": e.op(f"or i1 {every}, {none}")}[mode]
    e.set(target, result, "pred")


def active_mask(e: Emitter, s: Statement) -> None:
    """activemask.b32: the lanes that execute it."""
    (target,) = s.operands
    e.set(target, e.call("i32", "llvm.amdgcn.ballot.i32", ("i1", "true")), "b32")


def barrier(e: Emitter, s: Statement) -> None:
    """bar.sync 0, barrier.sync 0: all threads of the block."""
    if s.opcode == "bar" and s.modifiers == ("warp", "sync"):
        e.line('fence syncscope("wavefront") acq_rel')
        e.call("void", "llvm.amdgcn.wave.barrier")
        return
    sync = s.modifiers in (("sync",), ("cta", "sync"), ("sync", "aligned"), ("cta", "sync", "aligned"))
    whole = len(s.operands) == 1 and isinstance(s.operands[0], Immediate) and s.operands[0].value == 0
    if not sync or not whole:
        raise e.refuse(s, "only barrier 0 of the whole block")
    e.line('fence syncscope("workgroup") release')
    e.call("void", "llvm.amdgcn.s.barrier")
    e.line('fence syncscope("workgroup") acquire')


def event(e: Emitter, s: Statement) -> None:
    """pmevent n: a trace marker that code does not move across, as far as LLVM can be told so."""
    (number,) = s.operands
    if s.modifiers or not isinstance(number, Immediate):
        raise e.refuse(s)
    e.call("void", "llvm.amdgcn.sched.barrier", ("i32", "0"))
    e.call("void", "llvm.amdgcn.s.ttracedata.imm", ("i16", str(number.value)))
    e.call("void", "llvm.amdgcn.sched.barrier", ("i32", "0"))


HANDLERS: Mapping[str, Handler] = {
    "shfl": shuffle,
    "movmatrix": transpose,
    "vote": vote,
    "activemask": active_mask,
    "bar": barrier,
    "barrier": barrier,
    "pmevent": event,
}
