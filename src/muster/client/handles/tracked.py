"""What was submitted, as last seen: what a job and a sweep have in common for who holds them."""

from typing import Generic, Protocol, TypeVar


class _Record(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def status(self) -> str: ...


R = TypeVar("R", bound=_Record)


class Tracked(Generic[R]):
    """Something submitted that has a number and a name, and its record."""

    kind = "job"

    def __init__(self, record: R) -> None:
        self._record = record

    @property
    def number(self) -> int:
        return self._record.number

    @property
    def name(self) -> str:
        return self._record.name

    def __repr__(self) -> str:
        return f"<{self.kind} {self.number} {self.name!r}, {self._record.status}>"
