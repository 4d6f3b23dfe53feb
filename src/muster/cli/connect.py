"""The daemon that commands talk to, and what they print when it refuses or does not answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from muster.cli.exits import BAD_INPUT, NOT_ALLOWED, NOT_FOUND, NOT_REACHABLE, OTHER_FAILURE
from muster.cli.render.terminal import complain

if TYPE_CHECKING:
    from muster.client import Client, ClientError

NO_ANSWER = 0
"""The status of an error when no daemon answered."""

_CODES = {
    NO_ANSWER: NOT_REACHABLE,
    400: BAD_INPUT,
    401: NOT_ALLOWED,
    403: NOT_ALLOWED,
    404: NOT_FOUND,
    413: BAD_INPUT,
    422: BAD_INPUT,
}
"""Exit codes by HTTP status; others are OTHER_FAILURE."""

_REMEDIES = {
    401: "set MUSTER_API_TOKEN to a token; an administrator makes one with `muster token create`",
    403: "ask an administrator",
    429: "send fewer requests",
    500: "this is a bug in the daemon; see its log",
    503: "retry when the cause is fixed",
}
"""What to do, in terms of the command line; the API's own hints speak of HTTP."""

_OURS = "muster "
"""Begins a command: an error that names one needs no other remedy."""


def connect() -> "Client":
    """Connect to the daemon of `MUSTER_URL`, or the last one `muster up` started."""
    from muster.client import Client

    return Client()


@contextmanager
def daemon(
    *, about: str = "", failure: int | None = None, listing: str = "muster ps -a"
) -> Iterator["Client"]:
    """Connect for the length of a command; a ClientError is printed and ends it.

    `about`: the file at fault, if any. `failure`: the exit code for every error. `listing`: the command
    that lists what may not be found.
    """
    from muster.client import ClientError

    try:
        with connect() as client:
            yield client
    except ClientError as error:
        report(error, about=about, listing=listing)
        raise typer.Exit(exit_code(error) if failure is None else failure) from None


def report(error: "ClientError", *, about: str = "", listing: str = "muster ps -a") -> None:
    """Print an error: a line for each fault, and what to do."""
    for line in error_lines(error, about):
        complain(line)
    remedy = _remedy(error, listing)
    if remedy:
        typer.echo(f"  {remedy}", err=True)


def _remedy(error: "ClientError", listing: str) -> str | None:
    if error.status == NO_ANSWER:
        return error.hint
    if error.status == 404 and _OURS not in error.detail:
        return f"see: {listing}"
    if error.status == 403 and error.hint is None:  # a foreign name: no right would help
        return None
    return _REMEDIES.get(error.status)


def exit_code(error: "ClientError") -> int:
    return _CODES.get(error.status, OTHER_FAILURE)


def error_lines(error: "ClientError", about: str = "") -> list[str]:
    """The error as text: one line for each fault, or one for the whole."""
    if error.errors:
        return [_joined(about, fault.field, fault.problem) for fault in error.errors]
    return [_joined(about, error.detail or error.title)]


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)
