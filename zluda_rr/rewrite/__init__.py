"""Rules, matching, proof obligations and the splicing of cuts."""

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
    load_contract,
    load_contracts,
    read_contract,
)
