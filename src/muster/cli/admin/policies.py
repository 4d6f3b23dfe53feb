"""`muster policy`. Imports stay inside the commands so that help is quick."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.choices import Output
from muster.cli.connect import daemon
from muster.cli.options import DryRun, Printed, noun

if TYPE_CHECKING:
    from muster.wire.api.records import PolicyRecord

policy = noun("policy", "The scheduling policy (docs/explanation/policies.md).")


@policy.command()
def show(output: Printed = "text") -> None:
    """Show the active policy and the others available."""
    with daemon() as client:
        _print(client.policy(), output)


@policy.command("set")
def set_(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of the policy, with options if it has some: muster:makespan=0.6."
        ),
    ],
    dry_run: DryRun = False,
    output: Printed = "text",
) -> None:
    """Change the policy, from the next cycle on.

    Try it first: muster policy set tiresias --dry-run on the live jobs, or on last month's with
    muster history export and muster sim compare (docs/how-to/what-if.md).
    """
    with daemon() as client:
        if dry_run:
            from muster.cli.whatif.answer import dry_run as show_only

            show_only(client, {"policy": name}, f"policy {name}")
            return
        _print(client.set_policy(name), output)


def _print(record: "PolicyRecord", output: Output) -> None:
    from muster.cli.render.answers import as_json

    if output == "json":
        typer.echo(as_json(record))
        return
    others = ", ".join(name for name in record.policies if name != record.name)
    typer.echo(f"{record.name}: {record.text}" if record.text else record.name)
    typer.echo(f"others: {others}")
