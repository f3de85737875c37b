"""`Inst` to LLVM assembler text that assembles back to the same bytes (with `+real-true16`, LLVM's default).

Syntax: LLVM AMDGPUOperandSyntax and AMDGPUModifierSyntax.
"""

from __future__ import annotations

from functools import cache

from zluda_rr.emulate.gfx12.image_forms import IMAGE_DIMENSIONS
from zluda_rr.emulate.gfx12.inst import Encoding, Inst, Kind, Operand, Special, Type
from zluda_rr.emulate.gfx12.modifiers import has_signed_immediate
from zluda_rr.emulate.gfx12.opcodes import opcode_table
from zluda_rr.emulate.gfx12.operands import source_operand

__all__ = ["format_inst", "format_operand"]

_FLOATS = ("0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494309189532")
_SPECIALS = {
    Special.VCC_LO: "vcc_lo", Special.VCC_HI: "vcc_hi", Special.NULL: "null", Special.M0: "m0",
    Special.EXEC_LO: "exec_lo", Special.EXEC_HI: "exec_hi", Special.SHARED_BASE: "src_shared_base",
    Special.SHARED_LIMIT: "src_shared_limit", Special.PRIVATE_BASE: "src_private_base",
    Special.PRIVATE_LIMIT: "src_private_limit", Special.VCCZ: "src_vccz", Special.EXECZ: "src_execz",
    Special.SCC: "src_scc",
}  # fmt: skip
_LETTERS = {Kind.VGPR: "v", Kind.SGPR: "s", Kind.TTMP: "ttmp"}
_OMOD = ("", " mul:2", " mul:4", " div:2")
_SHORT = frozenset({Encoding.VOP1, Encoding.VOP2, Encoding.VOPC})
_LONG = frozenset({Encoding.VOP3, Encoding.VOP3SD, Encoding.VOP3P})
_LOAD_TH = ("RT", "NT", "HT", "LU", "NT_RT", "RT_NT", "NT_HT", "")
_STORE_TH = ("RT", "NT", "HT", "WB", "NT_RT", "RT_NT", "NT_HT", "NT_WB")
_ATOMIC_TH = ("", "RETURN", "NT", "NT_RETURN", "CASCADE_RT", "", "CASCADE_NT", "")
_SCOPES = ("CU", "SE", "DEV", "SYS")


@cache
def _has_short_form() -> frozenset[str]:
    return frozenset(s.mnemonic for s in opcode_table().values() if s.encoding in _SHORT)


@cache
def _inline_values(kind: Type) -> frozenset[int]:
    """Literal dwords that the assembler would turn into inline constants."""
    found = (source_operand(code, 1, kind) for code in (*range(128, 209), *range(240, 249)))
    return frozenset((o.value >> 32 if kind is Type.F64 else o.value) for o in found if o is not None)


def _has_inline_form(value: int, kind: Type) -> bool:
    return value in _inline_values(kind)


def _constant(operand: Operand) -> str:
    if operand.kind is Kind.INT:
        code = operand.index
        return str(code - 128 if code <= 192 else 192 - code)
    if operand.kind is Kind.FLOAT:
        return _FLOATS[operand.index - 240]
    value = operand.value >> 32 if operand.type is Type.F64 else operand.value & 0xFFFFFFFF
    if operand.type in (Type.B16, Type.F16, Type.BF16) and value >> 16 == 0xFFFF:
        return f"lit({value - (1 << 32)})"  # a sign-extended literal
    return f"lit({value:#x})" if _has_inline_form(value, operand.type) else f"{value:#x}"


def _register(operand: Operand) -> str:
    if operand.kind is Kind.SPECIAL:
        name = _SPECIALS[Special(operand.index)]
        pair = operand.width == 2 and operand.index in (Special.VCC_LO, Special.EXEC_LO)
        return name[:-3] if pair else name
    letter, first = _LETTERS[operand.kind], operand.index
    if operand.width > 1:
        return f"{letter}[{first}:{first + operand.width - 1}]"
    half = "" if operand.half is None or operand.kind is not Kind.VGPR else (".l", ".h")[operand.half]
    return f"{letter}{first}{half}"


def format_operand(operand: Operand) -> str:
    """Assembler spelling of one operand with its source modifiers."""
    if operand.kind is Kind.OFF:
        return "off"
    if operand.is_constant:
        text = _constant(operand)
        text = f"|{text}|" if operand.abs else text
        return f"neg({text})" if operand.neg else text
    text = _register(operand)
    text = f"|{text}|" if operand.abs else text
    return f"-{text}" if operand.neg else text


def _bits(mask: int, count: int) -> str:
    return "[" + ",".join(str(mask >> i & 1) for i in range(count)) + "]"


def _dpp(inst: Inst) -> str:
    mods = inst.mods
    fi = " fi:1" if mods.get("fi") else ""
    if "dpp8" in mods:
        lanes = ",".join(str(mods["dpp8"] >> 3 * i & 7) for i in range(8))
        return f" dpp8:[{lanes}]{fi}"
    if "dpp_ctrl" not in mods:
        return ""
    control, low = mods["dpp_ctrl"], mods["dpp_ctrl"] & 15
    rows = {0x100: "row_shl", 0x110: "row_shr", 0x120: "row_ror", 0x150: "row_share", 0x160: "row_xmask"}
    if control < 0x100:
        text = "quad_perm:[" + ",".join(str(control >> 2 * i & 3) for i in range(4)) + "]"
    elif control in (0x140, 0x141):
        text = "row_mirror" if control == 0x140 else "row_half_mirror"
    else:
        text = f"{rows.get(control - low, 'dpp_ctrl')}:{low}"
    bound = " bound_ctrl:1" if mods["bound_ctrl"] else ""
    return f" {text} row_mask:{mods['row_mask']:#x} bank_mask:{mods['bank_mask']:#x}{bound}{fi}"


def _packed(inst: Inst) -> str:
    mods, count = inst.mods, len(inst.src)
    is_mix = inst.mnemonic.startswith("v_fma_mix")
    text = ""
    if "swmmac" in inst.mnemonic:
        count = 2
        text = f" index_key:{mods['op_sel'] & 3}" if mods["op_sel"] else ""
    elif mods["op_sel"]:
        text = f" op_sel:{_bits(mods['op_sel'], count)}"
    full = (1 << count) - 1
    if mods["op_sel_hi"] & full != (0 if is_mix else full):
        text += f" op_sel_hi:{_bits(mods['op_sel_hi'], count)}"
    return text + ("" if is_mix else _negations(inst, count)) + (" clamp" if mods.get("clamp") else "")


def _negations(inst: Inst, count: int) -> str:
    return "".join(f" {name}:{_bits(inst.mods[name], count)}" for name in ("neg_lo", "neg_hi") if inst.mods[name])


def _selectors(inst: Inst, mask: int) -> str:
    """The VOP3 op_sel list: the sources (v_fmac repeats its destination as one), then the destination."""
    sources, high = len(inst.src), mask >> 3
    folded = mask & ((1 << sources) - 1) | high << sources
    if inst.mnemonic.startswith("v_fmac"):
        return _bits(folded | high << (sources + 1), sources + 2)
    return _bits(folded, sources + bool(inst.dst))


def _vector_modifiers(inst: Inst) -> str:
    if inst.encoding is Encoding.VOP3P:
        return _packed(inst) + _dpp(inst)
    mods = inst.mods
    text = ""
    if "op_sel" in mods and inst.mnemonic != "v_cndmask_b16":
        text = f" op_sel:{_selectors(inst, mods['op_sel'])}"
    if "byte_sel" in mods:
        text += f" byte_sel:{mods['byte_sel']}"
    return text + (" clamp" if mods.get("clamp") else "") + _OMOD[mods.get("omod", 0)] + _dpp(inst)


def _suffix(inst: Inst) -> str:
    dpp = "_dpp" if "dpp_ctrl" in inst.mods or "dpp8" in inst.mods else ""
    if inst.encoding in _SHORT:
        return dpp or "_e32"
    if inst.encoding in _LONG and (dpp or inst.mnemonic in _has_short_form()):
        return f"_e64{dpp}"
    return ""


def _mix_operands(inst: Inst) -> list[str]:
    """v_fma_mix spells neg_lo and neg_hi as source modifiers."""
    words = []
    for i, operand in enumerate(inst.src):
        absolute = f"|{format_operand(operand)}|" if inst.mods["neg_hi"] >> i & 1 else format_operand(operand)
        words.append(f"-{absolute}" if inst.mods["neg_lo"] >> i & 1 else absolute)
    return words


def _vector(inst: Inst) -> str:
    hidden = inst.mnemonic.startswith("v_cmpx_")
    words = [] if hidden else [format_operand(operand) for operand in inst.dst]
    is_mix = inst.mnemonic.startswith("v_fma_mix")
    words += _mix_operands(inst) if is_mix else [format_operand(operand) for operand in inst.src]
    return f"{inst.mnemonic}{_suffix(inst)} {', '.join(words)}".rstrip() + _vector_modifiers(inst)


def _dual(inst: Inst) -> str:
    words = ", ".join(format_operand(operand) for operand in (*inst.dst, *inst.src))
    return f"{inst.mnemonic} {words}"


def _scalar(inst: Inst) -> str:
    words = [format_operand(operand) for operand in (*inst.dst, *inst.src)]
    if "sendmsg_rtn" in inst.mnemonic:
        words[-1] = f"{inst.src[0].value:#x}"
    if "simm16" in inst.mods:
        value = inst.mods["simm16"] & 0xFFFF
        word = str(value) if has_signed_immediate(inst.mnemonic) else f"{value:#x}"
        words.insert(0 if "setreg" in inst.mnemonic else len(words), word)
    return f"{inst.mnemonic} {', '.join(words)}".rstrip()


def _policy(inst: Inst) -> str:
    policy = inst.mods.get("cpol", 0)
    th, scope, name = policy & 7, policy >> 3, inst.mnemonic
    kind, names = ("STORE", _STORE_TH) if "store" in name else ("LOAD", _LOAD_TH)
    if "atomic" in name:
        kind, names = "ATOMIC", _ATOMIC_TH
    word = f"TH_{kind}_{names[th]}" if names[th] else f"{th}"
    if kind != "ATOMIC" and th == 3 and scope == 3:
        word = f"TH_{kind}_BYPASS"
    return (f" th:{word}" if th else "") + (f" scope:SCOPE_{_SCOPES[scope]}" if scope else "")


def _scalar_memory(inst: Inst) -> str:
    words = [format_operand(operand) for operand in (*inst.dst, *inst.src)]
    if not words and "offset" not in inst.mods:
        return inst.mnemonic
    offset = inst.mods["offset"]
    if "length" in inst.mods:
        words.insert(len(words) - 1, f"{offset:#x}")
        return f"{inst.mnemonic} {', '.join(words)}, {inst.mods['length']}"
    if words[-1] == "null":
        words[-1], offset = f"{offset:#x}", 0
    tail = f" offset:{offset:#x}" if offset else ""
    return f"{inst.mnemonic} {', '.join(words)}{tail}{_policy(inst)}"


def _memory(inst: Inst) -> str:
    encoding, mods = inst.encoding, inst.mods
    operands = (*inst.dst, *inst.src)
    if encoding is Encoding.FLAT:
        operands = operands[:-1]
    if encoding is Encoding.BUFFER and "atomic" in inst.mnemonic and inst.dst:
        operands = operands[1:]
    text = f"{inst.mnemonic} {', '.join(format_operand(operand) for operand in operands)}".rstrip()
    text += " offen" * mods.get("offen", 0) + " idxen" * mods.get("idxen", 0)
    for name in ("offset", "offset0", "offset1"):
        text += f" {name}:{mods[name]}" if mods.get(name) else ""
    return text + _policy(inst) + " tfe" * mods.get("tfe", 0)


def _image(inst: Inst) -> str:
    """Addresses are a list in brackets, a lone one stands bare."""
    mods = inst.mods
    data, rest = (inst.dst, inst.src) if inst.dst else (inst.src[:1], inst.src[1:])
    resources = 2 if inst.encoding is Encoding.VSAMPLE else 1
    addresses = ", ".join(format_operand(operand) for operand in rest[:-resources])
    words = [format_operand(data[0]), addresses if len(rest) - resources == 1 else f"[{addresses}]"]
    words += [format_operand(operand) for operand in rest[-resources:]]
    mask = f" dmask:{mods['dmask']:#x}" if mods["dmask"] else ""
    text = f"{inst.mnemonic} {', '.join(words)}{mask} dim:SQ_RSRC_IMG_{IMAGE_DIMENSIONS[mods['dim']].name}"
    text += " unorm" * mods["unorm"] + _policy(inst)
    return text + "".join(f" {name}" * mods[name] for name in ("r128", "a16", "tfe", "lwe", "d16"))


def format_inst(inst: Inst) -> str:
    """One line of LLVM assembler without indentation."""
    encoding = inst.encoding
    if encoding is Encoding.VOPD:
        assert inst.pair is not None
        return f"{_dual(inst)} :: {_dual(inst.pair)}"
    if encoding in _SHORT or encoding in _LONG:
        return _vector(inst)
    if encoding is Encoding.SMEM:
        return _scalar_memory(inst)
    if encoding in (Encoding.VIMAGE, Encoding.VSAMPLE):
        return _image(inst)
    if encoding in (Encoding.DS, Encoding.GLOBAL, Encoding.FLAT, Encoding.SCRATCH, Encoding.BUFFER):
        return _memory(inst)
    return _scalar(inst)
