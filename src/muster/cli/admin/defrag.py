"""`muster defrag`. Imports stay inside the command so that help is quick."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.group import Commands
from muster.cli.jobs.complete import complete_live_jobs
from muster.cli.options import ADMIN, Printed, option

if TYPE_CHECKING:
    from muster.wire.api.whatif_records import DefragRecord

defrag = Commands()


@defrag.command("defrag", rich_help_panel=ADMIN)
def show_moves(
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]", help="Number or name of a waiting job.", autocompletion=complete_live_jobs
        ),
    ] = None,
    apply: Annotated[bool, option(None, "Make the moves for this job.", "--apply")] = False,
    output: Printed = "text",
) -> None:
    """Show which moves of running jobs would make room for which waiting job, and what they cost.

    Enough devices may be free, but not in one piece. The scheduler makes moves by itself once the wait
    that they save is worth more than the pauses; --apply makes them now. Administrators only.

    Examples:
      muster defrag
      muster defrag 12 --apply
    """
    from muster.cli.render.answers import as_json
    from muster.files.errors import InputError

    if apply and which is None:
        raise InputError.at("--apply", "for which job? Write for example: muster defrag 12 --apply")
    with daemon() as client:
        if apply and which is not None:
            found = [client.make_room(which)]
        else:
            number = None if which is None else client.record(which).number
            found = [each for each in client.defrag() if number in (None, each.number)]
    if output == "json":
        typer.echo(as_json(found))
    elif found:
        typer.echo("\n\n".join(_text(each, applied=apply) for each in found))
    else:
        typer.echo("no moves would make room: nothing waits for devices that are free in pieces")


def _text(found: "DefragRecord", *, applied: bool) -> str:
    from muster.cli.render.table import table
    from muster.cli.render.words import clock

    verb = "starts" if applied else "would start"
    lines = [
        f"job {found.number} ({found.name}) needs {found.devices} devices and {verb} on "
        f"{found.placement}:",
        table(
            ("MOVE", "FROM", "TO", "PAUSE"),
            [
                (f"{each.number} ({each.name})", each.before, each.after, clock(each.pause))
                for each in found.moves
            ],
            left=(0, 1, 2),
        ),
        f"costs {found.cost:,.0f} device-seconds, saves {found.gain:,.0f}; "
        f"fragmentation {found.fragmentation_before:.0%} -> {found.fragmentation_after:.0%}",
    ]
    if applied:
        lines.append("moving now; its devices are kept for it")
    elif found.pays:
        lines.append("the scheduler makes these moves by itself")
    else:
        lines.append(f"now: muster defrag {found.number} --apply")
    return "\n".join(lines)
