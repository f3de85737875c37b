"""Click commands of the hook."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zluda_rr.errors import UserError

if TYPE_CHECKING:
    from zluda_rr.hook.cache import Cache

_FOLDER = click.Path(file_okay=False, path_type=Path)
_ZLUDA = click.option("--zluda", type=_FOLDER, required=True, help="Folder with ZLUDA's libcuda.so.1.")


@click.command("hook-child", hidden=True)
@click.argument("folder", type=_FOLDER)
@click.argument("key")
def hook_child(folder: Path, key: str) -> None:
    """Serve one cache miss of the library."""
    from zluda_rr.hook.child import serve

    serve(folder, key)


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--list-skipped", "--verbose", "listing", is_flag=True, help="Name everything that is passed over.")
def precompile(paths: tuple[Path, ...], quiet: bool, listing: bool) -> None:
    """Rewrite the modules in PATHS (files or folders) ahead of the game."""
    from zluda_rr.hook.progress import Progress

    show = Progress(quiet)
    show.say(f"precompile: looking into {', '.join(map(click.format_filename, paths[:3]))}")

    from zluda_rr.hook.options import read_settings
    from zluda_rr.hook.precompile import fill_from

    fill_from(paths, read_settings(), show, click.echo, listing=listing)


@click.group()
def cache() -> None:
    """The cache of rewritten modules."""


@cache.command("list")
def cache_list() -> None:
    """Every module in the cache: size, what was replaced or why not."""
    for path in _cache().entries():
        entry = _cache().read(path.stem)
        if entry is not None:
            click.echo(f"{path.stem[:8]}  {path.stat().st_size:>9}  {entry.kind.name.lower():<9}  {entry.note}")


@cache.command("clear")
def cache_clear() -> None:
    """Remove every module."""
    click.echo(f"{_cache().clear()} modules removed")


@cache.command("prune")
@click.option("--keep", default=256, show_default=True, help="MiB to keep; the oldest go first.")
def cache_prune(keep: int) -> None:
    """Remove damaged modules, leftovers, and the oldest modules above a size."""
    click.echo(f"{_cache().prune(keep << 20)} modules removed")


@click.command()
@_ZLUDA
def install(zluda: Path) -> None:
    """Put the hook in front of ZLUDA's library. Can be repeated and undone."""
    from zluda_rr.hook.install import install as put
    from zluda_rr.hook.options import read_settings
    from zluda_rr.hook.session import refresh_tool

    refresh_tool(read_settings())
    click.echo(put(zluda))


@click.command()
@_ZLUDA
def uninstall(zluda: Path) -> None:
    """Undo `install`. Touches nothing that it did not put there."""
    from zluda_rr.hook.install import uninstall as remove

    click.echo(remove(zluda))


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def launch(command: tuple[str, ...]) -> None:
    """Run COMMAND with the hook, as `zluda-rr launch -- COMMAND`; where the hook is not usable, without it."""
    from zluda_rr.hook.build import library_path
    from zluda_rr.hook.bypass import start_problems
    from zluda_rr.hook.options import read_settings
    from zluda_rr.hook.session import launch_environment, refresh_tool

    env = dict(os.environ)
    try:
        refresh_tool(read_settings())
        env = launch_environment(env, library_path())
        for bypass in start_problems(Path(shutil.which(command[0]) or command[0])):
            click.echo(f"zluda-rr: {bypass.detail}; {bypass.remedy}", err=True)
    except UserError as error:
        click.echo(f"zluda-rr: {error}; running without the hook", err=True)
    try:
        os.execvpe(command[0], list(command), env)
    except OSError as error:
        raise UserError(f"{command[0]}: {error.strerror}") from error


@click.command("hook-path")
def hook_path() -> None:
    """Path of the hook library, for ZLUDA_RR_HOOK of a patched ZLUDA (docs/zluda.md)."""
    from zluda_rr.hook.build import library_path
    from zluda_rr.hook.options import read_settings
    from zluda_rr.hook.session import refresh_bodies

    refresh_bodies(read_settings())
    click.echo(library_path())


@click.command()
@click.argument("programs", nargs=-1, type=click.Path(path_type=Path))
def doctor(programs: tuple[Path, ...]) -> None:
    """What the hook finds on this machine, what is missing, what passes it by, and what to do. PROGRAMS are files or
    folders of a game, to be looked at as well."""
    from zluda_rr.hook.session import examine

    findings = examine(programs=programs)
    for finding in findings:
        click.echo(str(finding))
    if not all(finding.well for finding in findings):
        sys.exit(1)


@click.command()
@click.option("-n", "count", default=20, show_default=True, help="Lines to show.")
def log(count: int) -> None:
    """The last loads: layers replaced, refused, and why."""
    from zluda_rr.hook.session import recent_runs

    for line in recent_runs(_cache().folder, count):
        click.echo(line)


def _cache() -> Cache:
    from zluda_rr.hook.cache import Cache
    from zluda_rr.hook.options import hook_folder, read_settings

    return Cache(hook_folder(read_settings()))


COMMANDS = (hook_child, precompile, cache, install, uninstall, launch, hook_path, doctor, log)
