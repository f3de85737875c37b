"""PTX front end: lossless syntax tree, statement numbering, control flow, def-use, liveness, instruction table."""

from . import isa
from .collection import no_collection
from .defuse import DefUse
from .edit import add_module_item, edit_function
from .flow import BasicBlock, ControlFlow
from .liveness import Liveness
from .nodes import (
    Address,
    Block,
    BodyItem,
    Coordinates,
    Directive,
    Function,
    Group,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    ModuleItem,
    Negated,
    Operand,
    Pair,
    Param,
    RegDecl,
    Register,
    Span,
    Symbol,
    VarDecl,
    Vector,
    type_bytes,
)
from .page import form_text, operands_text
from .parser import parse
from .printer import print_module
from .problem import PtxError
from .statements import Body, Statement, linearise

__all__ = [
    "Address",
    "BasicBlock",
    "Block",
    "Body",
    "BodyItem",
    "ControlFlow",
    "Coordinates",
    "DefUse",
    "Directive",
    "Function",
    "Group",
    "Guard",
    "Immediate",
    "Instruction",
    "Label",
    "Liveness",
    "Module",
    "ModuleItem",
    "Negated",
    "Operand",
    "Pair",
    "Param",
    "PtxError",
    "RegDecl",
    "Register",
    "Span",
    "Statement",
    "Symbol",
    "VarDecl",
    "Vector",
    "add_module_item",
    "edit_function",
    "form_text",
    "isa",
    "linearise",
    "no_collection",
    "operands_text",
    "parse",
    "print_module",
    "type_bytes",
]
