"""Rules, matching, proof obligations and the splicing of cuts."""

from .capture import CapturedPhase, CaptureLayout
from .contract import (
    Argument,
    Buffer,
    ContractError,
    CutRule,
    Launch,
    LayerContract,
    PhaseRow,
    ResultImage,
    SharedArray,
    Surface,
    WeightRegion,
)
from .contract_reader import load_contract, load_contracts, read_contract
from .driver import RewriteResult, examine_cut, instrument_phases, match_entry, rewrite_module
from .inspect import inspect_json, inspect_text
from .match import Kernel, LayerMatch, RowMatch, analyse, match_layer
from .plan import OBLIGATIONS, Call, CutPlan, Obligation, Output
from .report import CutReport

__all__ = [
    "OBLIGATIONS",
    "Argument",
    "Buffer",
    "Call",
    "CaptureLayout",
    "CapturedPhase",
    "ContractError",
    "CutPlan",
    "CutReport",
    "CutRule",
    "Kernel",
    "Launch",
    "LayerContract",
    "LayerMatch",
    "Obligation",
    "Output",
    "PhaseRow",
    "ResultImage",
    "RewriteResult",
    "RowMatch",
    "SharedArray",
    "Surface",
    "WeightRegion",
    "analyse",
    "examine_cut",
    "inspect_json",
    "inspect_text",
    "instrument_phases",
    "load_contract",
    "load_contracts",
    "match_entry",
    "match_layer",
    "read_contract",
    "rewrite_module",
]
