"""Random assembler lines for an opcode of the table, to be judged by LLVM's assembler.

Lines may be illegal (register limits, constant bus); callers keep those that assemble.
"""

from __future__ import annotations

import random

from zluda_rr.emulate.gfx12.image_forms import IMAGE_DIMENSIONS, IMAGE_FORMATS, data_dwords
from zluda_rr.emulate.gfx12.inst import Encoding, Type
from zluda_rr.emulate.gfx12.opcodes import OperandSpec, Signature

_SHORT = (Encoding.VOP1, Encoding.VOP2, Encoding.VOPC)
_LONG = (Encoding.VOP3, Encoding.VOP3SD, Encoding.VOP3P)
_MEMORY = (Encoding.GLOBAL, Encoding.FLAT, Encoding.SCRATCH, Encoding.BUFFER)
_FLOAT_WORDS = ("0.5", "-0.5", "1.0", "-1.0", "2.0", "-4.0", "0.15915494309189532")
_WORDS = ("m0", "null", "vcc_lo", "vcc_hi", "exec_lo", "exec_hi", "ttmp5", "src_scc", "src_shared_base")
_PAIRS = ("vcc", "exec", "ttmp[4:5]", "null", "src_private_base")


def _vgpr(rng: random.Random, width: int, *, half: bool = False, limit: int = 256) -> str:
    first = rng.randrange(limit - width + 1)
    if half:
        return f"v{first}{rng.choice(('.l', '.h'))}"
    return f"v{first}" if width == 1 else f"v[{first}:{first + width - 1}]"


def _sgpr(rng: random.Random, width: int) -> str:
    step = 1 if width == 1 else 2 if width == 2 else 4
    first = rng.randrange(0, 104 - width, step)
    if width == 1:
        return rng.choice((f"s{first}", f"s{first}", rng.choice(_WORDS[2:7])))
    if width == 2:
        return rng.choice((f"s[{first}:{first + 1}]", rng.choice(_PAIRS[:3])))
    return f"s[{first}:{first + width - 1}]"


def _constant(rng: random.Random, kind: Type | None, *, inline: bool) -> str:
    if inline:
        return rng.choice((str(rng.randrange(-16, 65)), rng.choice(_FLOAT_WORDS[:-1])))
    bits = 16 if kind in (Type.F16, Type.B16, Type.BF16) else 32
    literal = f"{rng.getrandbits(bits):#x}"
    return rng.choice((str(rng.randrange(-16, 65)), rng.choice(_FLOAT_WORDS), literal))


def _source(rng: random.Random, spec: OperandSpec, encoding: Encoding, *, dpp: bool) -> str:
    vector = encoding in _SHORT or encoding in _LONG or encoding is Encoding.VOPD
    roll = rng.random()
    if vector and roll < 0.5:
        return _vgpr(rng, spec.width, half=spec.half, limit=128 if spec.half and encoding in _SHORT else 256)
    if roll < 0.75:
        word = _sgpr(rng, spec.width) if spec.width <= 2 or not vector else _vgpr(rng, spec.width)
        return rng.choice((*_WORDS, word, word)) if spec.width == 1 else word
    return _constant(rng, spec.type, inline=dpp)  # DPP and a literal exclude each other


def _modified(rng: random.Random, word: str) -> str:
    roll = rng.random()
    if word[0] in "-0123456789" or roll < 0.7:
        return word
    return f"-{word}" if roll < 0.8 else f"|{word}|" if roll < 0.9 else f"-|{word}|"


def _operand(rng: random.Random, spec: OperandSpec, signature: Signature, *, dpp: bool) -> str:
    encoding, field = signature.encoding, spec.field
    if field == "vcc":
        return "vcc_lo"
    if field in ("simm16", "literal", "ioffset", "length") or spec.type is None:
        bound = {"literal": 1 << 32, "simm16": 1 << 16, "ioffset": 1 << 22, "length": 32}.get(field, 256)
        bound = 1 << 16 if spec.type is Type.F16 else bound
        return f"{rng.randrange(bound):#x}"
    if field in ("ssrc0", "ssrc1", "src0", "src1", "src2", "srcx0", "srcy0"):
        if dpp and field == "src0":
            return _vgpr(rng, spec.width, half=spec.half, limit=128 if spec.half and encoding in _SHORT else 256)
        word = _source(rng, spec, encoding, dpp=dpp)
        return _modified(rng, word) if encoding is Encoding.VOP3 else word
    if field in ("sdst", "sbase", "soffset", "rsrc") or spec.scalar:
        return _sgpr(rng, spec.width)
    if field == "saddr":
        return rng.choice(("off", _sgpr(rng, spec.width)))
    limit = 128 if spec.half and encoding in _SHORT else 256
    return _vgpr(rng, spec.width, half=spec.half, limit=limit)


def _address(rng: random.Random, words: list[str], specs: list[OperandSpec], encoding: Encoding) -> None:
    """Make vaddr fit the scalar address next to it."""
    fields = [spec.field for spec in specs]
    if "vaddr" not in fields or "saddr" not in fields:
        return
    off = words[fields.index("saddr")] == "off"
    if encoding is Encoding.GLOBAL:
        words[fields.index("vaddr")] = _vgpr(rng, 2 if off else 1)
    elif rng.random() < 0.5:
        words[fields.index("vaddr")] = "off"


def _dpp(rng: random.Random) -> str:
    fi = rng.choice(("", " fi:1"))
    if rng.random() < 0.3:
        return f"dpp8:[{','.join(str(rng.randrange(8)) for _ in range(8))}]{fi}"
    control = rng.choice((
        f"quad_perm:[{','.join(str(rng.randrange(4)) for _ in range(4))}]", f"row_shl:{rng.randrange(1, 16)}",
        f"row_shr:{rng.randrange(1, 16)}", f"row_ror:{rng.randrange(1, 16)}", "row_mirror", "row_half_mirror",
        f"row_share:{rng.randrange(16)}", f"row_xmask:{rng.randrange(16)}"))  # fmt: skip
    bound = rng.choice(("", " bound_ctrl:1"))
    return f"{control} row_mask:{rng.randrange(16):#x} bank_mask:{rng.randrange(16):#x}{bound}{fi}"


def _bits(rng: random.Random, count: int) -> str:
    return "[" + ",".join(str(rng.randrange(2)) for _ in range(count)) + "]"


def _modifiers(rng: random.Random, signature: Signature, sources: int) -> str:
    encoding, words = signature.encoding, []
    if encoding in (Encoding.VOP3, Encoding.VOP3SD):
        words += [rng.choice(("", "", "clamp")), rng.choice(("", "", "mul:2", "mul:4", "div:2"))]
        if "fp8" in signature.mnemonic or "bf8" in signature.mnemonic:
            words.append(f"byte_sel:{rng.randrange(4)}")
        elif rng.random() < 0.2:
            words.append(f"op_sel:{_bits(rng, sources + rng.randrange(2))}")
    elif encoding is Encoding.VOP3P:
        for name in ("op_sel", "op_sel_hi", "neg_lo", "neg_hi"):
            if rng.random() < 0.25:
                words.append(f"{name}:{_bits(rng, sources)}")
        words.append(rng.choice(("", "", "clamp")))
    elif encoding is Encoding.DS:
        pair = "2addr" in signature.mnemonic
        words += ["offset0:3 offset1:255"] if pair else [f"offset:{rng.randrange(1 << 16)}"]
    elif encoding in _MEMORY or encoding is Encoding.SMEM:
        if "prefetch" not in signature.mnemonic:
            words.append(rng.choice(("", f"offset:{rng.randrange(-(1 << 22), 1 << 22)}")))
            words.append(rng.choice(("", "scope:SCOPE_SE", "scope:SCOPE_DEV", "scope:SCOPE_SYS")))
            words.append(rng.choice(("", "th:TH_LOAD_NT", "th:TH_STORE_RT_NT", "th:TH_STORE_WB", "th:TH_LOAD_LU")))
        if encoding is Encoding.BUFFER:
            words.insert(0, rng.choice(("offen", "idxen", "offen idxen", "")))
    return " ".join(word for word in words if word)


def _image_line(rng: random.Random, signature: Signature) -> str:
    """Modifiers first: the operands' number and width follow from them."""
    flags = [name for name in ("a16", "tfe", "d16") if rng.random() < 0.2]
    dimension = rng.choice(IMAGE_DIMENSIONS)
    mask = rng.randrange(16)
    mods = {"dmask": mask, "d16": int("d16" in flags), "tfe": int("tfe" in flags)}
    count = (dimension.coordinates + 1) // 2 if "a16" in flags else dimension.coordinates
    addresses = ", ".join(_vgpr(rng, 1) for _ in range(count))
    words = [_vgpr(rng, data_dwords(mods)), addresses if count == 1 else f"[{addresses}]"]
    words.append(_sgpr(rng, 8))
    tail = [f"dmask:{mask:#x}", f"dim:SQ_RSRC_IMG_{dimension.name}"]
    if signature.encoding is Encoding.VSAMPLE:
        words.append(_sgpr(rng, 4))
        tail += rng.choice(([], ["unorm"]))
        flags[-1:-1] = rng.choice(([], ["lwe"])) if flags[-1:] == ["d16"] else []
    policy = "th:TH_STORE_NT scope:SCOPE_DEV" if "store" in signature.mnemonic else "th:TH_LOAD_HT"
    tail += rng.choice(([], [policy], ["scope:SCOPE_SE"]))
    return f"{signature.mnemonic} {', '.join(words)} {' '.join((*tail, *flags))}"


def random_line(rng: random.Random, signature: Signature) -> str:
    """One candidate line for the opcode; modifiers are left out half of the time."""
    encoding = signature.encoding
    if encoding in IMAGE_FORMATS:
        return _image_line(rng, signature)
    vector = encoding in _SHORT or encoding in _LONG
    dpp = vector and rng.random() < 0.3
    specs = list(signature.operands)
    returns = any(spec.optional for spec in specs)
    if returns and encoding is not Encoding.BUFFER and rng.random() < 0.5:
        specs, returns = [spec for spec in specs if not spec.optional], False
    words = [_operand(rng, spec, signature, dpp=dpp) for spec in specs]
    _address(rng, words, specs, encoding)
    sources = sum(not spec.written for spec in specs)
    tail = _modifiers(rng, signature, sources) if rng.random() < 0.5 else ""
    suffix = "_e32" if encoding in _SHORT else rng.choice(("_e64", "")) if encoding in _LONG else ""
    if dpp:
        suffix = "_dpp" if encoding in _SHORT else "_e64_dpp"
        tail = f"{tail} {_dpp(rng)}"
    if returns:
        tail = f"{tail.split('th:')[0]} th:TH_ATOMIC_RETURN"
    line = f"{signature.mnemonic}{suffix} {', '.join(words)} {tail}"
    if any(spec.field == "srcx0" for spec in specs):
        return f"{line} :: v_dual_mov_b32 v{rng.randrange(256)}, v{rng.randrange(256)}"
    if any(spec.field == "srcy0" for spec in specs):
        return f"v_dual_mov_b32 v{rng.randrange(256)}, v{rng.randrange(256)} :: {line}"
    return line.rstrip()
