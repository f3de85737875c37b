"""PTX oracle: executes a kernel's statements over a whole grid and is what everything else is compared
with."""

from zluda_rr.emulate.ptx.linked import Linked, link, refused_statements
from zluda_rr.emulate.ptx.machine import Extern, ExternCall
from zluda_rr.emulate.ptx.problem import ExecutionFault, OracleError
from zluda_rr.emulate.ptx.run import OracleStats, run_entry

__all__ = [
    "ExecutionFault",
    "Extern",
    "ExternCall",
    "Linked",
    "OracleError",
    "OracleStats",
    "link",
    "refused_statements",
    "run_entry",
]
