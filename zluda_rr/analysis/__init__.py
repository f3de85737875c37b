"""Analyses of a kernel's PTX: values and addresses, mma phases with their true shapes, operand sources, shared
memory.
"""

from .canonical import Canonical, shuffle_sources
from .epilogues import Epilogue, Operation, find_epilogues
from .integers import Integers
from .lanes import Atom, Form, describe
from .mix import instruction_mix
from .operands import Cell, Operands, Row
from .origins import Leaf, Origins, Summary
from .phases import Mma, Phase, build_phase, collect_mma, group_adjacent
from .replaced import replaced
from .shared import SharedArrayUse, Touch
from .solver import Solver
from .sources import (
    Bias,
    Columns,
    Derived,
    InputNorm,
    InputResidual,
    Residual,
    Shared,
    Source,
    Unknown,
    Weights,
    Zero,
)
from .terms import Term, Terms, lanes_text
from .values import Access, Extent, Value, Values, element_bytes, element_count, read_extent, space_of

__all__ = [
    "Access",
    "Atom",
    "Bias",
    "Canonical",
    "Cell",
    "Columns",
    "Derived",
    "Epilogue",
    "Extent",
    "Form",
    "InputNorm",
    "InputResidual",
    "Integers",
    "Leaf",
    "Mma",
    "Operands",
    "Operation",
    "Origins",
    "Phase",
    "Residual",
    "Row",
    "Shared",
    "SharedArrayUse",
    "Solver",
    "Source",
    "Summary",
    "Term",
    "Terms",
    "Touch",
    "Unknown",
    "Value",
    "Values",
    "Weights",
    "Zero",
    "build_phase",
    "collect_mma",
    "describe",
    "element_bytes",
    "element_count",
    "find_epilogues",
    "group_adjacent",
    "instruction_mix",
    "lanes_text",
    "read_extent",
    "replaced",
    "shuffle_sources",
    "space_of",
]
