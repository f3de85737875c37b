"""Translation validation of fusion: is the fused kernel the original, term for term? docs/rules.md, Validation.

Shares no code with the fusion or its analyses: it knows the PTX syntax tree, the PTX ISA and the helpers' meaning.
"""

from .compare import Verdict, validate_fusion

__all__ = ["Verdict", "validate_fusion"]
