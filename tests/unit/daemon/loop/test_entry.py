"""Who waits for an entry is told once."""

import asyncio

import pytest

from muster.daemon.loop.entry import Entry


def test_the_first_word_counts() -> None:
    async def scenario() -> None:
        entry = Entry(done=asyncio.get_running_loop().create_future())
        entry.succeed()
        entry.fail(ValueError("too late"))
        entry.succeed()
        assert entry.done is not None
        await entry.done

    asyncio.run(scenario())


def test_a_refusal_reaches_the_caller() -> None:
    async def scenario() -> None:
        entry = Entry(done=asyncio.get_running_loop().create_future())
        entry.fail(ValueError("conflict"))
        entry.succeed()
        assert entry.done is not None
        with pytest.raises(ValueError, match="conflict"):
            await entry.done

    asyncio.run(scenario())


def test_a_caller_who_has_gone_away_is_no_error() -> None:
    async def scenario() -> None:
        entry = Entry(done=asyncio.get_running_loop().create_future())
        assert entry.done is not None
        entry.done.cancel()
        entry.succeed()
        entry.fail(ValueError("nobody listens"))

    asyncio.run(scenario())


def test_nobody_needs_to_wait() -> None:
    entry = Entry()
    entry.succeed()
    entry.fail(ValueError("nobody listens"))
