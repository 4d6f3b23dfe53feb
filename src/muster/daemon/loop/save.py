"""The state as a snapshot, encoded in slices: of thousands of jobs it takes tens of milliseconds."""

import asyncio
from dataclasses import fields
from typing import Any

import msgspec

from muster.daemon.loop.state import State
from muster.store.codec import encode

AT_ONCE = 500
"""Jobs encoded without yielding to requests: some 2 ms."""


async def encoded(state: State) -> bytes:
    """Encode a state, yielding to requests in between; decoded as one that was encoded at once."""
    jobs: dict[int, msgspec.Raw] = {}
    for place, (number, job) in enumerate(state.view.jobs.items(), 1):
        jobs[number] = msgspec.Raw(encode(job))
        if place % AT_ONCE == 0:
            await asyncio.sleep(0)
    return encode({**_fields(state), "view": {**_fields(state.view), "jobs": jobs}})


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}
