"""What a client is told when something was not done."""

from collections.abc import Sequence
from dataclasses import dataclass

import httpx
import msgspec


@dataclass(frozen=True, slots=True)
class FieldFault:
    """One thing wrong with what was sent, and where."""

    field: str
    problem: str


@dataclass(frozen=True, slots=True)
class _Problem:
    """What of a problem+json is read."""

    status: int = 0
    title: str = ""
    detail: str = ""
    hint: str | None = None
    errors: tuple[FieldFault, ...] = ()


class ClientError(Exception):
    """A request that was not carried out; `str()` says why and what would help.

    `status` is that of HTTP, or 0 where no daemon answered.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        hint: str | None = None,
        errors: Sequence[FieldFault] = (),
    ) -> None:
        self.status, self.title, self.detail, self.hint = status, title, detail, hint
        self.errors = tuple(errors)
        faults = "".join(f"\n  {each.field}: {each.problem}" for each in self.errors)
        super().__init__(f"{detail}{faults}" + (f" ({hint})" if hint and not faults else ""))


def raise_for(answer: httpx.Response) -> None:
    """Raise what a problem says; nothing if the answer is none. Its body must have been read."""
    if not answer.is_success:
        raise problem_of(answer.content, answer.status_code)


def problem_of(data: bytes | str, status: int = 0) -> ClientError:
    """The error that a problem says; without one, what little is known."""
    try:
        found = msgspec.json.decode(data, type=_Problem)
    except msgspec.DecodeError:  # not a daemon, perhaps: a proxy before it
        return ClientError(status, "", f"the answer was {status}, without a reason")
    return ClientError(found.status or status, found.title, found.detail, found.hint, found.errors)


def no_daemon(url: str, error: Exception) -> ClientError:
    """Nobody answers."""
    detail = f"no daemon answers at {url}: {error}"
    return ClientError(0, "No Daemon", detail, "start one with muster up, or set MUSTER_URL")
