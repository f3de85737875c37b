"""Every instruction form of the table, spelled out, and what the oracle and the lowering do with it."""

from zluda_rr.forms.probe import Probe, ProbeKernel, probe_kernel, probe_of
from zluda_rr.forms.spelling import Spelling, spellings
from zluda_rr.forms.support import Support, support

__all__ = ["Probe", "ProbeKernel", "Spelling", "Support", "probe_kernel", "probe_of", "spellings", "support"]
