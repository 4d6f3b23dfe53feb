"""Reading server-sent events."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name, its data, and the mark to go on after it."""

    name: str
    data: str
    mark: str | None


def events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """The events of a stream; comments are left out, and so is an event that is cut off."""
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
    """Lines as the daemon ends them: with a line feed, and nothing else that Unicode calls an end."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode()
