"""`muster limit`. Imports stay inside the commands so that help is quick."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.options import Listed, noun, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.wire.api.use_records import LimitRecord

limit = noun("limit", "Limits of users: live jobs, their size, submissions per minute.")

_LISTING = "muster limit list"
_EVERYBODY = "*"

Limited = Annotated[
    str | None,
    typer.Argument(metavar="[USER]", help="The user. (default: everybody without their own)"),
]


@limit.command("list")
def list_(output: Listed = "table") -> None:
    """List the limits of users and what they use: all for an administrator, otherwise your own."""
    from muster.cli.render.answers import as_json

    with daemon(listing=_LISTING) as client:
        found = client.limits()
    typer.echo(as_json(found) if output == "json" else _table(found))


@limit.command("set")
def set_(
    user: Limited = None,
    jobs: Annotated[int | None, option(None, "Most live jobs.", metavar="N")] = None,
    size: Annotated[
        str | None,
        option(None, "Most memory for the commands and environments of live jobs.", metavar="SIZE"),
    ] = None,
    submissions: Annotated[
        int | None, option(None, "Most submissions per minute.", metavar="N")
    ] = None,
    device_hours: Annotated[
        str | None,
        option(None, "Most device-hours in a calendar month; `none`: no limit.", metavar="HOURS"),
    ] = None,
) -> None:
    """Change the limits of a user, or of everybody; what is not given stays unchanged.

    Administrators have no limits.

    Examples:
      muster limit set --jobs 200              everybody
      muster limit set ada --jobs 5000 --size 200MB
      muster limit set ada --device-hours 500  nothing more of ada's starts once they are used up
    """
    from muster.cli.parse import parsed
    from muster.files.source.quantity import parse_number, parse_size

    if jobs is None and size is None and submissions is None and device_hours is None:
        raise typer.BadParameter("give --jobs, --size, --submissions or --device-hours")
    bytes_ = None if size is None else parsed("--size", size, parse_size)
    hours = None if device_hours is None else 0.0
    if device_hours not in (None, "none"):
        hours = parsed("--device-hours", device_hours, parse_number)
    with daemon(listing=_LISTING) as client:
        changed = client.set_limits(
            user or _EVERYBODY,
            jobs=jobs,
            size=bytes_,
            submissions=submissions,
            device_hours=hours,
        )
    typer.echo(_table([changed]))


@limit.command()
def reset(user: Limited = None) -> None:
    """Give a user everybody's limits again; without a user, everybody the defaults."""
    with daemon(listing=_LISTING) as client:
        changed = client.reset_limits(user or _EVERYBODY)
    typer.echo(_table([changed]))


def _of(used: str, most: str, limits: "LimitRecord") -> str:
    return most if limits.user == _EVERYBODY else f"{used}/{most}"


def _hours(most: float) -> str:
    return f"{most:,g}" if most else "any"


def _table(limits: "Sequence[LimitRecord]") -> str:
    from muster.cli.render.table import table
    from muster.cli.render.words import size
    from muster.model.duration import in_hours

    rows = [
        (
            "everybody" if each.user == _EVERYBODY else each.user,
            _of(f"{each.live:,}", f"{each.jobs:,}", each),
            _of(size(each.used), size(each.size), each),
            f"{each.submissions:,}",
            _of(in_hours(each.device_hours_used), _hours(each.device_hours), each),
            "set" if each.own else "default" if each.user == _EVERYBODY else "everybody's",
        )
        for each in limits
    ]
    return table(
        ("USER", "LIVE JOBS", "SIZE", "PER MINUTE", "DEVICE-HOURS", "LIMITS"), rows, left=(0, 5)
    )
