"""Two connections that are joined, over real pairs of sockets."""

import asyncio
import socket

from muster.wire.visits.splice import ends_of, splice


def test_an_end_that_has_closed_its_way_still_gets_what_the_other_sends() -> None:
    """Else its connection is reset, and what it said last may be lost on the way."""

    async def scene() -> tuple[bytes, bytes]:
        (caller, door), (beside, task) = socket.socketpair(), socket.socketpair()
        joined = asyncio.create_task(splice(await ends_of(door), await ends_of(beside)))
        hears, says = await ends_of(caller)
        told, tells = await ends_of(task)
        tells.write(b"last words")
        tells.write_eof()
        heard = await hears.read()
        says.write(b"on its way")
        says.close()
        late = await told.read()
        tells.close()
        await joined
        return heard, late

    assert asyncio.run(scene()) == (b"last words", b"on its way")
