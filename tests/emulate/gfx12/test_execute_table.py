"""Which instructions the emulator executes: all that gfx1201 has but for a list of strange ones."""

from __future__ import annotations

import re

from zluda_rr.emulate.gfx12.dispatch import operations
from zluda_rr.emulate.gfx12.opcodes import opcode_table

UNSUPPORTED = re.compile(
    r"buffer_(load|store)_(d16_)?(hi_)?format_\w+|ds_bvh_\w+|ds_condxchg32_\w+|ds_storexchg_2addr_\w+"
    r"|global_atomic_ordered_add_b64|global_load_tr_\w+|s_alloc_vgpr|s_barrier_(init|join|leave)"
    r"|s_get_barrier_state|s_endpgm_saved|s_movrelsd_2_b32|s_rfe_b64|s_sendmsg_rtn_\w+|s_sendmsghalt"
    r"|v_cube\w+|v_cvt_sr_\w+|v_illegal|v_mqsad_u32_u8|v_mullit_f32|v_swaprel_b32|v_swmmac_\w+|v_trig_preop_f64"
)


def test_every_other_opcode_is_executed() -> None:
    real = {signature.mnemonic.replace("v_dual_", "v_") for signature in opcode_table().values()}
    missing = {name for name in real - operations().keys() if not UNSUPPORTED.fullmatch(name)}
    assert not missing
    assert operations().keys() <= real
