"""`zluda-rr rules`: the layers that are known, and drafts of those that are not."""

from pathlib import Path

import click

from zluda_rr.commands.options import ANY, FILE, MODULE


@click.group()
def rules() -> None:
    """The rules of layers (docs/rules.md)."""


@rules.command("show")
@click.argument("layer")
def rules_show(layer: str) -> None:
    """Everything that a rule says, expanded: every phase, offset and source. LAYER is a name or a rule file."""
    from zluda_rr.contract import load_contract, read_contract, show_contract

    contract = read_contract(Path(layer)) if layer.endswith(".toml") else load_contract(layer)
    click.echo(show_contract(contract), nl=False)


@rules.command("draft")
@click.argument("file", type=ANY)
@MODULE
@click.option("--entry", help="Kernel to draft; needed only where FILE has several with products.")
@click.option("--family", default="swin", show_default=True, help="Family in rules/, or a family's file.")
@click.option("-o", "--output", type=FILE, help="Where the rule goes; default: standard output.")
@click.pass_context
def rules_draft(
    context: click.Context, file: Path, chosen: str | None, entry: str | None, family: str, output: Path | None
) -> None:
    """The rule of a kernel that no rule names yet, inferred from FILE (PTX or a container).

    Comments say what could not be inferred. The draft is compared with the kernel word for word; where an operand is
    not what it says, the first difference goes to stderr, and the exit code is 1.
    """
    from zluda_rr.image import read_single, write_atomically
    from zluda_rr.rewrite import draft_rule

    image = read_single(file, chosen)
    draft = draft_rule(image.text, _family(family), filename=image.origin, entry=entry)
    text = draft.text + "".join(f"# Not inferred: {what}.\n" for what in draft.open)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_atomically(output, text.encode())
        for what in draft.open:
            click.echo(f"not inferred: {what}", err=True)
    if draft.difference is not None:
        click.echo(f"not proved: {draft.difference}", err=True)
        context.exit(1)


def _family(name: str) -> Path:
    from zluda_rr.errors import UserError
    from zluda_rr.resources import resource_dir

    path = Path(name) if name.endswith(".toml") else resource_dir("rules") / f"{name}.toml"
    if not path.is_file():
        raise UserError(f"{path}: no such family; name one of rules/, or a family's file")
    return path
