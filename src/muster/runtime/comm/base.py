"""The interface of a communicator, and what it tells of its transfers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that went over a link, and the seconds they took.

    `link`: "ring" for a collective, else the name of the other task.
    """

    link: str
    bytes: int
    seconds: float


def by_link(transfers: Iterable[Transfer]) -> dict[str, tuple[int, float]]:
    """Bytes and seconds of each link, over a step: one message instead of one for each bucket."""
    found: dict[str, tuple[int, float]] = {}
    for transfer in transfers:
        size, seconds = found.get(transfer.link, (0, 0.0))
        found[transfer.link] = size + transfer.bytes, seconds + transfer.seconds
    return found


class Alone:
    """The communicator of a job's only member: its buckets are the sums."""

    def begin(self) -> None:
        """Nothing to post."""

    def put(self, bucket: int) -> None:
        """Nothing to send."""

    def finish(self) -> list[Transfer]:
        """Nothing to wait for."""
        return []

    def close(self) -> None:
        """Nothing to drop."""


class Communicator(Protocol):
    """Sums buckets over the members of one formation, step after step.

    Buckets are flat tensors given at construction; they hold this member's gradients at `put` and the
    members' sum after `finish`. All members put the same buckets in the same order. Any call may raise
    `BrokenGroupError`, `finish` within the group's deadline; afterwards only `close` may be called.
    """

    def begin(self) -> None:
        """A step begins: post what must be posted before the first bucket is ready."""

    def put(self, bucket: int) -> None:
        """This bucket holds its gradients; returns at once."""

    def finish(self) -> list[Transfer]:
        """Wait until every bucket holds its sum."""

    def close(self) -> None:
        """Give the group up; whoever waits in it gets an error. May be called twice, by any thread."""
