"""Logs reach the daemon whole: once, in order, whatever is cut when."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.agent.talk.log_feed import PART, WINDOW, LogFeed
from muster.model.task import LogPiece
from muster.wire.agents.agent_messages import LogPart
from tests.pretended_daemon import data_of

LOG = "7/1/worker-0.log"


@dataclass
class Disk:
    """Logs on the node."""

    content: dict[str, bytes] = field(default_factory=dict)
    trimmed: int = 0
    """Bytes at the beginning that are gone."""

    def read(self, log: str, offset: int, size: int) -> LogPiece:
        if log not in self.content:
            raise LookupError(log)
        data = self.content[log]
        asked = offset if offset >= 0 else len(data) + offset
        begin = min(max(asked, self.trimmed), len(data))
        piece = data[begin : begin + size]
        return LogPiece(piece, begin, begin + len(piece))


@dataclass
class Copies:
    """Logs as the daemon keeps them; a part must begin where the copy ends."""

    content: dict[str, bytes] = field(default_factory=dict)

    def store(self, part: LogPart) -> int:
        have = self.content.get(part.log, b"")
        assert part.offset == len(have), "lost, or sent twice"
        self.content[part.log] = have + data_of(part)
        return len(self.content[part.log])

    def have(self) -> dict[str, int]:
        return {log: len(data) for log, data in self.content.items()}


STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from("abc"), st.binary(min_size=1, max_size=3 * PART)),
    st.tuples(st.just("pump"), st.integers(0, 12), st.integers(0, 12)),
    st.tuples(st.just("cut"), st.just(0), st.just(0)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_whatever_is_cut_the_copy_is_the_log(steps: list[tuple[str, object, object]]) -> None:
    disk, copies, now = Disk(), Copies(), 0.0
    feed = LogFeed(disk.read, now, rate=PART, total=2 * PART)
    for log in "abc":
        feed.follow(log, now)
    for kind, first, second in steps:
        now += 0.5
        if kind == "write":
            assert isinstance(first, str)
            assert isinstance(second, bytes)
            disk.content[first] = disk.content.get(first, b"") + second
        elif kind == "cut":
            feed.connected(copies.have())
        else:
            assert isinstance(first, int)
            assert isinstance(second, int)
            # Of what is sent some arrives, and of what arrives some is acknowledged; then it is cut.
            parts = list(feed.parts(now))
            for place, part in enumerate(parts[:first]):
                stored = copies.store(part)
                if place < second:
                    feed.stored(part.log, stored, False)
            if first < len(parts):
                feed.connected(copies.have())
    feed.connected(copies.have())
    while not all(feed.all_stored(log) for log in disk.content):
        now += 1.0
        for part in feed.parts(now):
            feed.stored(part.log, copies.store(part), False)
    assert copies.content == disk.content


def test_no_more_than_a_window_is_on_its_way() -> None:
    disk = Disk({LOG: bytes(10 * WINDOW)})
    feed = LogFeed(disk.read, 0.0, rate=1e9, total=1e9)
    feed.follow(LOG, 0.0)
    assert sum(len(data_of(part)) for part in feed.parts(0.0)) == WINDOW
    assert list(feed.parts(1.0)) == []
    feed.stored(LOG, PART, False)
    assert [part.offset for part in feed.parts(2.0)] == [WINDOW]


def test_one_log_does_not_take_the_rate_of_the_others() -> None:
    disk = Disk({"loud": bytes(100 * PART), "quiet": b"a word"})
    feed = LogFeed(disk.read, 0.0, rate=PART, total=2 * PART)
    for log in disk.content:
        feed.follow(log, 0.0)
    sent = dict.fromkeys(disk.content, 0)
    for second in range(60):
        for part in feed.parts(float(second)):
            sent[part.log] += len(data_of(part))
            feed.stored(part.log, part.offset + len(data_of(part)), False)
    assert sent["quiet"] == len(b"a word")
    assert sent["loud"] <= (60 + 4) * PART


def test_what_was_trimmed_is_left_out() -> None:
    disk = Disk({LOG: bytes(1000)}, trimmed=400)
    feed = LogFeed(disk.read, 0.0)
    feed.follow(LOG, 0.0)
    (part,) = feed.parts(0.0)
    assert (part.offset, len(data_of(part))) == (400, 600)
    feed.stored(LOG, 1000, False)
    assert feed.all_stored(LOG)


def test_a_log_that_the_daemon_does_not_want_is_not_sent() -> None:
    disk = Disk({LOG: bytes(10)})
    feed = LogFeed(disk.read, 0.0)
    feed.follow(LOG, 0.0)
    assert len(list(feed.parts(0.0))) == 1
    feed.stored(LOG, 0, True)
    disk.content[LOG] += bytes(10)
    assert list(feed.parts(1.0)) == []
    assert feed.all_stored(LOG)


@pytest.mark.parametrize("have", [-1, "5", None, 2.5])
def test_nonsense_about_a_log_means_that_there_is_nothing(have: object) -> None:
    disk = Disk({LOG: b"hello"})
    feed = LogFeed(disk.read, 0.0)
    feed.connected({LOG: have})
    feed.follow(LOG, 0.0)
    assert [part.offset for part in feed.parts(0.0)] == [0]


def test_a_daemon_that_has_more_than_it_said_gets_the_rest_alone() -> None:
    disk = Disk({LOG: bytes(4 * WINDOW)})
    feed = LogFeed(disk.read, 0.0, rate=1e9, total=1e9)
    feed.follow(LOG, 0.0)
    assert next(part.offset for part in feed.parts(0.0)) == 0
    feed.stored(LOG, 3 * WINDOW, False)
    assert next(part.offset for part in feed.parts(1.0)) == 3 * WINDOW
