"""PTX front end: lossless syntax tree, statement numbering, control flow, def-use, liveness, instruction table."""

from . import isa
from .collection import no_collection
from .constants import immediate
from .defuse import DefUse
from .edit import (
    add_module_item,
    add_parameter,
    change_instructions,
    define_functions,
    edit_function,
    replace_statements,
)
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
    Negative,
    Opaque,
    Operand,
    Pair,
    Param,
    RegDecl,
    Register,
    Selected,
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
from .wording import on_one_line, rename_reads, with_modifier

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
    "Negative",
    "Opaque",
    "Operand",
    "Pair",
    "Param",
    "PtxError",
    "RegDecl",
    "Register",
    "Selected",
    "Span",
    "Statement",
    "Symbol",
    "VarDecl",
    "Vector",
    "add_module_item",
    "add_parameter",
    "change_instructions",
    "define_functions",
    "edit_function",
    "form_text",
    "immediate",
    "isa",
    "linearise",
    "no_collection",
    "on_one_line",
    "operands_text",
    "parse",
    "print_module",
    "rename_reads",
    "replace_statements",
    "type_bytes",
    "with_modifier",
]
