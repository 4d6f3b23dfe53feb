"""Logs of other nodes are copied byte by byte, whatever is sent twice, late or from elsewhere."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.executors.fleet.log_store import LogStore
from muster.wire.agents.agent_messages import LogPart, LogStored
from tests.unit.executors.fleet.talking import World, order, task

LOG = "7-train/1/worker-0.log"


def read(store: LogStore, log: str = LOG) -> bytes:
    return store.read(log, 0, 10**6).data


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    return LogStore(tmp_path)


def test_what_comes_twice_is_kept_once(store: LogStore) -> None:
    store.begin(LOG, "gpu1")
    assert store.append(LOG, 0, b"one\n") == 4
    assert store.append(LOG, 0, b"one\n") == 4
    assert store.append(LOG, 2, b"e\ntwo\n") == 8
    assert read(store) == b"one\ntwo\n"


@given(cuts=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15)), max_size=30))
def test_parts_sent_again_from_anywhere_make_the_same_log(
    cuts: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An agent continues at what the daemon has, or begins earlier because it did not hear."""
    written = bytes(range(65, 65 + 26)) * 4
    store = LogStore(tmp_path_factory.mktemp("logs"))
    store.begin(LOG, "gpu1")
    for back, size in cuts:
        begin = max(0, store.have(LOG) - back)
        store.append(LOG, begin, written[begin : begin + size])
        assert read(store) == written[: store.have(LOG)]


def test_the_next_daemon_continues_where_the_last_one_was(store: LogStore, tmp_path: Path) -> None:
    store.begin(LOG, "gpu1")
    store.append(LOG, 0, b"one\n")
    later = LogStore(tmp_path)
    assert (later.source(LOG), later.have(LOG)) == ("gpu1", 4)
    assert later.find(task()) == LOG
    assert later.find(task(number=70)) == ""


def test_a_task_restarted_on_another_node_continues_the_log(store: LogStore, tmp_path: Path) -> None:
    """And back again: each node's own file goes on where that node had stopped."""
    store.begin(LOG, "gpu1")
    store.append(LOG, 0, b"first\n")
    store.begin(LOG, "gpu2")
    assert store.have(LOG) == 0
    store.append(LOG, 0, b"second\n")
    later = LogStore(tmp_path)
    later.begin(LOG, "gpu1")
    assert later.have(LOG) == len(b"first\n")
    later.append(LOG, 6, b"third\n")
    assert read(later) == b"first\nsecond\nthird\n"


def test_what_a_node_has_trimmed_is_left_out(store: LogStore) -> None:
    store.begin(LOG, "gpu1")
    store.append(LOG, 0, b"one\n")
    assert store.append(LOG, 1000, b"[trimmed]\n") == 1010
    assert store.append(LOG, 1010, b"more\n") == 1015
    assert read(store) == b"one\n[trimmed]\nmore\n"


def test_a_log_above_the_limit_loses_its_older_half(tmp_path: Path) -> None:
    store = LogStore(tmp_path, limit=2 * 2**20)
    store.begin(LOG, "gpu1")
    line, offset = b"x" * 1023 + b"\n", 0
    for _ in range(5 * 1024):
        offset = store.append(LOG, offset, line)
    piece = store.read(LOG, 0, 100)
    assert piece.offset > 0
    assert piece.data.startswith(b"[muster:")
    assert store.read(LOG, -1024, 2048).data == line
    used = (tmp_path / LOG).stat().st_blocks * 512
    assert used <= 4 * 2**20


def test_old_logs_are_deleted_except_those_of_live_jobs(store: LogStore, tmp_path: Path) -> None:
    other = "8-other/1/worker-0.log"
    for log in (LOG, other):
        store.begin(log, "gpu1")
    assert store.prune(2e9 * 2, living={7}) == 1
    assert (tmp_path / LOG).exists()
    assert not (tmp_path / "8-other").exists()


# --- who may write what ---


def test_a_node_writes_the_logs_of_its_own_tasks_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    one, other = world.call("gpu1"), world.call("gpu2")
    world.fleet.start(order(task(), "gpu1"))
    part = LogPart(LOG, 0, "b25lCg==")
    for name in (LOG, "../../x", "", "9-x/1/worker-0.log", "\0"):
        world.fleet.heard(other, LogPart(name, 0, part.data))
    assert all(each.full for each in other.of(LogStored))
    assert world.logs.read(LOG, 0, 10).data == b""
    world.fleet.heard(one, part)
    assert one.of(LogStored) == [LogStored(LOG, 4)]
    assert world.logs.read(LOG, 0, 10).data == b"one\n"


def test_the_rest_of_a_log_may_come_after_the_exit(tmp_path: Path) -> None:
    world = World(tmp_path)
    talk = world.call()
    world.fleet.start(order(task()))
    world.exited(talk, task())
    world.fleet.heard(talk, LogPart(LOG, 0, "b25lCg=="))
    assert world.logs.read(LOG, 0, 10).data == b"one\n"


def test_what_is_not_base64_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    talk = world.call()
    world.fleet.start(order(task()))
    world.fleet.heard(talk, LogPart(LOG, 0, "!"))
    assert talk.of(LogStored)[0].full
