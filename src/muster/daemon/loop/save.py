"""The state as a snapshot, encoded in slices: of thousands of jobs it takes tens of milliseconds."""

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from itertools import islice
from struct import Struct
from typing import Any

from muster.daemon.loop.state import State
from muster.model.view import JobState
from muster.store.codec import encode

AT_ONCE = 500
"""Jobs encoded without yielding to requests: some 2 ms. Fewer than a mapping of MessagePack with three
bytes before its entries may have."""
_MAP, _MAP_32, _FIX_MAP, _EMPTY = Struct("!BI"), 0xDF, 16, b"\x80"
"""MessagePack: a mapping of any size begins with 0xDF and the number of its entries in four bytes; one
of fewer than 16 with one byte, and one of fewer than 65,536 with three."""


async def encoded(state: State) -> list[bytes]:
    """Encode a state, yielding to requests in between. Return the pieces of what is decoded as one that
    was encoded at once, some hundred kilobytes each: they are written one by one."""
    parts: list[bytes] = []
    jobs = iter(state.view.jobs.items())
    while some := dict(islice(jobs, AT_ONCE)):
        if parts:
            await asyncio.sleep(0)
        parts.append(_entries(some))
    # Names follow from the jobs: a view without them works them out.
    view = {**_without(state.view, "jobs"), "names": {}, "jobs": {}}
    whole = encode({**_without(state, "view"), "view": view})
    return [whole.removesuffix(_EMPTY) + _MAP.pack(_MAP_32, len(state.view.jobs)), *parts]


def _entries(jobs: Mapping[int, JobState]) -> bytes:
    """Return the keys and values of an encoded mapping, without what says how many there are."""
    return encode(jobs)[1 if len(jobs) < _FIX_MAP else 3 :]


def _without(value: Any, name: str) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value) if each.name != name}
