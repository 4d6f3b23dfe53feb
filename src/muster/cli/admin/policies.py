"""`muster policy`: who gets how much. Imports stay inside the commands so that help is quick."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.choices import Output
from muster.cli.connect import daemon
from muster.cli.group import QuickGroup
from muster.cli.options import Printed

if TYPE_CHECKING:
    from muster.wire.records import PolicyRecord

policy = typer.Typer(
    name="policy",
    cls=QuickGroup,
    help="The policy: who gets how much. See docs/explanation/policies.md.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@policy.command()
def show(output: Printed = Output.TEXT) -> None:
    """Show the policy in force, and which others there are."""
    with daemon() as client:
        _tell(client.policy(), output)


@policy.command("set")
def set_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The policy.")],
    output: Printed = Output.TEXT,
) -> None:
    """Choose another policy, from the next cycle on.

    Try it before: muster sim compare --policies muster,tiresias (see docs/reference/simulator.md).
    """
    with daemon() as client:
        _tell(client.set_policy(name), output)


def _tell(record: "PolicyRecord", output: Output) -> None:
    from muster.cli.render.answers import as_json

    if output is Output.JSON:
        typer.echo(as_json(record))
        return
    others = ", ".join(name for name in record.policies if name != record.name)
    typer.echo(f"{record.name}: {record.text}" if record.text else record.name)
    typer.echo(f"others: {others}")
