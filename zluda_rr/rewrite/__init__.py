"""Rules, matching, proof obligations and the splicing of cuts."""

from .capture import CapturedPhase, CaptureLayout
from .difference import Difference, compare_modules, difference_json, difference_text
from .draft import Draft, draft_rule
from .driver import RewriteResult, examine_cut, instrument_phases, match_entry, rewrite_module
from .entry_report import EntryReport, ModuleReport, examine_module
from .fusion import (
    HELPERS,
    FusionResult,
    Validator,
    calls_helpers,
    fuse_entries,
    fuse_module,
    fusion_rules,
    fusion_wanted,
)
from .fusion_report import FusionReport, fusion_json, fusion_text
from .fusion_report import report as report_fusion
from .inspect import inspect_json, inspect_text, module_json, module_text
from .layer_cut import LayerPlan
from .match import Kernel, LayerMatch, RowMatch, analyse, match_layer
from .page import report_page
from .pipeline import Fusion, KernelProofs, KernelRewrite, Proofs, RewriteOptions, rewrite_kernels
from .plan import OBLIGATIONS, Call, CutPlan, Obligation, Output
from .report import CutReport
from .validate import Verdict

__all__ = [
    "HELPERS",
    "OBLIGATIONS",
    "Call",
    "CaptureLayout",
    "CapturedPhase",
    "CutPlan",
    "CutReport",
    "Difference",
    "Draft",
    "EntryReport",
    "Fusion",
    "FusionReport",
    "FusionResult",
    "Kernel",
    "KernelProofs",
    "KernelRewrite",
    "LayerMatch",
    "LayerPlan",
    "ModuleReport",
    "Obligation",
    "Output",
    "Proofs",
    "RewriteOptions",
    "RewriteResult",
    "RowMatch",
    "Validator",
    "Verdict",
    "analyse",
    "calls_helpers",
    "compare_modules",
    "difference_json",
    "difference_text",
    "draft_rule",
    "examine_cut",
    "examine_module",
    "fuse_entries",
    "fuse_module",
    "fusion_json",
    "fusion_rules",
    "fusion_text",
    "fusion_wanted",
    "inspect_json",
    "inspect_text",
    "instrument_phases",
    "match_entry",
    "match_layer",
    "module_json",
    "module_text",
    "report_fusion",
    "report_page",
    "rewrite_kernels",
    "rewrite_module",
]
