"""`muster forward`."""

from typing import TYPE_CHECKING

import typer

from muster.cli.parse import parsed
from muster.cli.render.terminal import complain

if TYPE_CHECKING:
    from muster.client import Client

HIGHEST = 65535


def forward_port(client: "Client", which: str, text: str, rank: int | None) -> int:
    """Forward a port until Ctrl-C, or until the task ends; return the exit code."""
    port, local = parsed("PORT", text, ports_of)
    forward = client.forward(which, port, local, rank=rank, tell=complain)
    typer.echo(f"http://127.0.0.1:{forward.local} leads to port {port} of job {which}; Ctrl-C ends it")
    try:
        complain(forward.serve())
    except KeyboardInterrupt:
        return 0
    return 1


def ports_of(text: str) -> tuple[int, int | None]:
    """Read `6006` or `6006:16006`: the port there, and here."""
    there, colon, here = text.partition(":")
    numbers = [there, here] if colon else [there]
    if not all(each.isdecimal() and int(each) <= HIGHEST for each in numbers) or there == "0":
        raise ValueError(f"{text!r} is not a port; write for example 6006 or 6006:16006")
    return int(there), int(here) if colon else None
