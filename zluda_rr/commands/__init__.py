"""Click commands, one file each; every command calls one function of a package below and loads it only then."""

import click

from zluda_rr.commands import hook, zluda
from zluda_rr.commands.bench import bench
from zluda_rr.commands.compile import compile as compile_command
from zluda_rr.commands.demo import demo
from zluda_rr.commands.diff import diff
from zluda_rr.commands.hip_emulated import hip_emulated
from zluda_rr.commands.inspect import inspect
from zluda_rr.commands.rewrite import rewrite
from zluda_rr.commands.rules import rules
from zluda_rr.commands.selftest import selftest
from zluda_rr.commands.verify import verify

COMMANDS: tuple[click.Command, ...] = (
    inspect,
    diff,
    rewrite,
    compile_command,
    verify,
    bench,
    demo,
    rules,
    selftest,
    hip_emulated,
    *hook.COMMANDS,
    *zluda.COMMANDS,
)
"""Every command of the program."""
