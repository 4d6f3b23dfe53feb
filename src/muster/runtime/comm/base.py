"""The interface of communicators."""

from typing import Protocol


class Alone:
    """The communicator of a single member: its buckets are the sums."""

    def begin(self) -> None:
        """Nothing to post."""

    def put(self, bucket: int) -> None:
        """Nothing to send."""

    def finish(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        """Nothing to drop."""


class Communicator(Protocol):
    """Sums buckets over the members of one formation, step after step.

    Buckets are flat tensors given at construction: this member's gradients at `put`, the sum after
    `finish`. All members put the same buckets in the same order. Any call may raise `BrokenGroupError`,
    `finish` within the group's deadline; after that only `close` may be called.
    """

    def begin(self) -> None:
        """Begin a step: post what the first bucket needs."""

    def put(self, bucket: int) -> None:
        """Hand over a bucket that holds its gradients; do not wait."""

    def finish(self) -> None:
        """Wait until every bucket holds its sum."""

    def close(self) -> None:
        """Drop the group; whoever waits in it gets an error. Idempotent; callable from any thread."""
