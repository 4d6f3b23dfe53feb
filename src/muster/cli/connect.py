"""The daemon that commands ask, and what is said when it refuses or does not answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from muster.cli.exits import BAD_INPUT, NOT_ALLOWED, NOT_FOUND, NOT_REACHABLE, OTHER_FAILURE
from muster.cli.render.terminal import complain

if TYPE_CHECKING:
    from muster.client import Client, ClientError

NO_ANSWER = 0
"""The status of an error where no daemon has answered."""

_CODES = {
    NO_ANSWER: NOT_REACHABLE,
    400: BAD_INPUT,
    401: NOT_ALLOWED,
    403: NOT_ALLOWED,
    404: NOT_FOUND,
    413: BAD_INPUT,
    422: BAD_INPUT,
}
"""The exit code for a status of HTTP; any other is another failure."""

_REMEDIES = {
    401: "`muster up` leaves a token for its own user; others get theirs by `muster token create`, "
    "and put it into MUSTER_API_TOKEN",
    403: "ask an administrator",
    429: "ask less often",
    500: "this is a fault of the daemon; its log says more",
    503: "try again when that is put right",
}
"""What would help, in words of the command line; the API's own hints speak of HTTP."""

_OURS = "muster "
"""Begins a command: a refusal that names one needs no other."""


def connect() -> "Client":
    """The daemon of `MUSTER_URL`, or the one that `muster up` told of."""
    from muster.client import Client

    return Client()


@contextmanager
def daemon(
    *, about: str = "", failure: int | None = None, listing: str = "muster ps -a"
) -> Iterator["Client"]:
    """The daemon, for the time of a command, which ends with a line for each thing refused.

    `about`: the file at fault, where there is one. `failure`: the exit code for all of it.
    `listing`: the command that lists what might not be found.
    """
    from muster.client import ClientError

    try:
        with connect() as client:
            yield client
    except ClientError as error:
        report(error, about=about, listing=listing)
        raise typer.Exit(exit_code(error) if failure is None else failure) from None


def report(error: "ClientError", *, about: str = "", listing: str = "muster ps -a") -> None:
    """Say what was refused: a line for each fault, or one for the whole, and what would help."""
    for line in told(error, about):
        complain(line)
    remedy = _remedy(error, listing)
    if remedy:
        typer.echo(f"  {remedy}", err=True)


def _remedy(error: "ClientError", listing: str) -> str | None:
    if error.status == NO_ANSWER:
        return error.hint
    if error.status == 404 and _OURS not in error.detail:
        return f"{listing} lists what there is"
    return _REMEDIES.get(error.status)


def exit_code(error: "ClientError") -> int:
    """What a refusal ends a command with."""
    return _CODES.get(error.status, OTHER_FAILURE)


def told(error: "ClientError", about: str = "") -> list[str]:
    """A refusal in lines: each fault on one, or the whole in one."""
    if error.errors:
        return [_joined(about, fault.field, fault.problem) for fault in error.errors]
    return [_joined(about, error.detail or error.title)]


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)
