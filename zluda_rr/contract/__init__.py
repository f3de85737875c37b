"""What a layer is, by structure: the family's rule, the layer's numbers, the arithmetic of its operands."""

from .arithmetic import Arithmetic
from .compare import TermDifference, smallest_difference, term_text
from .expected import Expected, ExpectedStore
from .family import LayerNumbers, Window, expand
from .model import (
    AnyCutRule,
    Argument,
    ArithmeticRule,
    BodyChoice,
    Buffer,
    ContractError,
    CutRule,
    Launch,
    LayerContract,
    LayerCutRule,
    PhaseRow,
    ResultImage,
    SharedArray,
    StoreRule,
    Surface,
    TokenImage,
    WeightRegion,
)
from .reader import Family, load_contract, load_contracts, read_contract, read_family
from .show import show_contract

__all__ = [
    "AnyCutRule",
    "Argument",
    "Arithmetic",
    "ArithmeticRule",
    "BodyChoice",
    "Buffer",
    "ContractError",
    "CutRule",
    "Expected",
    "ExpectedStore",
    "Family",
    "Launch",
    "LayerContract",
    "LayerCutRule",
    "LayerNumbers",
    "PhaseRow",
    "ResultImage",
    "SharedArray",
    "StoreRule",
    "Surface",
    "TermDifference",
    "TokenImage",
    "WeightRegion",
    "Window",
    "expand",
    "load_contract",
    "load_contracts",
    "read_contract",
    "read_family",
    "show_contract",
    "smallest_difference",
    "term_text",
]
