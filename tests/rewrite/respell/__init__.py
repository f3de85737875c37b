"""Respellings of a kernel's PTX, text to text: the same meaning as NVIDIA or others would write it."""

from .documented import DOCUMENTED
from .inputs import INPUTS
from .text import Respelling, respelled
from .undocumented import UNDOCUMENTED

__all__ = ["DOCUMENTED", "INPUTS", "UNDOCUMENTED", "Respelling", "respelled"]
