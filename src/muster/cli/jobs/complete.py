"""Names of jobs and sweeps for the shell's completion. Quick to import, and quick to give up."""

from collections.abc import Callable, Collection, Iterator
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.client import Client

PATIENCE = 1.0
"""s for a daemon to answer: somebody waits at a prompt."""
_OFFERED = 200


def complete_jobs(incomplete: str) -> list[tuple[str, str]]:
    """Return the newest jobs whose name or number begins so, with their status; none if no daemon
    answers in time."""
    return _found(_jobs, incomplete)


def complete_live_jobs(incomplete: str) -> list[tuple[str, str]]:
    """Return those that have not ended, for commands that change a job or lead into it."""
    return _found(_live_jobs, incomplete)


def complete_sweeps(incomplete: str) -> list[tuple[str, str]]:
    """Return the newest sweeps whose name or number begins so, as `complete_jobs`."""
    return _found(_sweeps, incomplete)


def complete_either(incomplete: str) -> list[tuple[str, str]]:
    """Return jobs and sweeps."""
    return _found(lambda client: (*_sweeps(client), *_jobs(client)), incomplete)


def complete_live(incomplete: str) -> list[tuple[str, str]]:
    """Return jobs and sweeps that have not ended."""
    return _found(lambda client: (*_live_sweeps(client), *_live_jobs(client)), incomplete)


Offered = tuple[int, str, str]
"""Number, name and what becomes of it."""


def _jobs(client: "Client", statuses: tuple[str, ...] = ()) -> tuple[Offered, ...]:
    page = client.active_jobs(page=_OFFERED, statuses=statuses).jobs
    return tuple((job.number, job.name, f"job {job.number}, {job.status}") for job in page)


def _live_jobs(client: "Client") -> tuple[Offered, ...]:
    from muster.wire.api.records import LIVE

    return _jobs(client, LIVE)


def _sweeps(client: "Client", without: Collection[str] = ()) -> tuple[Offered, ...]:
    page = (each for each in client.sweeps(page=_OFFERED) if each.status not in without)
    return tuple((each.number, each.name, f"sweep {each.number}, {each.status}") for each in page)


def _live_sweeps(client: "Client") -> tuple[Offered, ...]:
    from muster.wire.api.sweep_records import SWEEP_OVER

    return _sweeps(client, SWEEP_OVER)


def _found(ask: "Callable[[Client], tuple[Offered, ...]]", incomplete: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def answer() -> None:
        from muster.client import Client, ClientError

        try:
            with Client(patience=0.0) as client:
                found.extend(_beginning(ask(client), incomplete))
        except (ClientError, OSError):
            return

    # A thread, since a daemon that does not answer must not hold up the shell.
    asking = Thread(target=answer, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return list(found)


def _beginning(offered: tuple[Offered, ...], incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield each name once, and numbers where one is being typed."""
    seen: dict[str, str] = {}
    for number, name, text in offered:
        seen.setdefault(name, text)
        if incomplete.isdigit():
            seen[str(number)] = f"{name}, {text.rpartition(', ')[2]}"
    return ((name, text) for name, text in seen.items() if name.startswith(incomplete))
