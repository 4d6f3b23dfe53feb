"""A snapshot that is encoded in slices is read as one that was encoded at once."""

import asyncio

from muster.daemon.loop import save
from muster.daemon.loop.save import encoded
from muster.daemon.loop.state import State
from muster.model.event import StartBegun, Submitted
from muster.store.codec import decode, encode
from tests.builders import cluster, job, placement, view


def test_it_is_the_same_state() -> None:
    asked = [job(f"j{i}", 1, number=i + 1) for i in range(save.AT_ONCE + 3)]
    begun = StartBegun(asked[0].number, 1, placement(("n0", 1)), 1.0)
    state = State(view(cluster(1)), {}, "fifo").after(
        [*(Submitted(each, 0.0) for each in asked), begun]
    )
    body = asyncio.run(encoded(state))
    assert decode(body, State) == decode(encode(state), State)
    assert body == encode(state), "to the byte"
