"""Reading server-sent events."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `mark`: the id to resume after."""

    name: str
    data: str
    mark: str | None


def events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of a stream, without comments and without an incomplete last one."""
    name, data, mark = "message", list[str](), None
    for line in _lines(chunks):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            if data:
                yield Event(name, "\n".join(data), mark)
            name, data, mark = "message", [], None
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            mark = value


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Split at line feeds only, not at everything that Unicode calls a line end."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode()
