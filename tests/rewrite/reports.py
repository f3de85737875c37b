"""Reports on the reference modules, each examined once per session and without rules, which takes a second each."""

from functools import cache

from tests.rewrite.conftest import corpus
from zluda_rr.image import read_ptx
from zluda_rr.rewrite import EntryReport, ModuleReport, examine_module

BUILDS = ("", "-reordered", "-parambase", "-nvcc13.5", "-nvrtc12.9")


@cache
def text(name: str) -> str:
    return read_ptx(corpus(name))


@cache
def report(name: str) -> ModuleReport:
    return examine_module(text(name), filename=f"{name}.ptx", contracts=())


def entry(name: str) -> EntryReport:
    (found,) = report(name).entries
    return found
