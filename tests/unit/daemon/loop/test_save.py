"""A snapshot that is encoded in slices is read as one that was encoded at once."""

import asyncio

import pytest

from muster.daemon.loop import save
from muster.daemon.loop.save import encoded
from muster.daemon.loop.state import State
from muster.model.event import StartBegun, Submitted
from muster.store.codec import decode, encode
from tests.builders import cluster, job, placement, view


@pytest.mark.parametrize("count", [0, 1, 15, 16, save.AT_ONCE, save.AT_ONCE + 3, 2 * save.AT_ONCE + 40])
def test_it_is_the_same_state(count: int) -> None:
    asked = [job(f"j{i}", 1, number=i + 1) for i in range(count)]
    begun = [StartBegun(each.number, 1, placement(("n0", 1)), 1.0) for each in asked[:1]]
    state = State(view(cluster(1)), {}, "fifo").after(
        [*(Submitted(each, 0.0) for each in asked), *begun]
    )
    read = decode(b"".join(asyncio.run(encoded(state))), State)
    assert read == decode(encode(state), State)
    assert read.view.names == state.view.names
