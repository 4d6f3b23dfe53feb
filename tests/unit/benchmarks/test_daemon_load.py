"""What the benchmark of the daemon measures with: the past it makes up could have been one."""

import importlib
import socket
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from muster.daemon.loop.state import State
from muster.store.store import open_store

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Modules as the benchmarks themselves import them."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in [each for each in sys.modules if each.split(".")[0] == "support"]:
        monkeypatch.delitem(sys.modules, name)

    def module(name: str) -> ModuleType:
        return importlib.import_module(f"support.{name}")

    return module


def test_the_past_folds_to_the_jobs_that_wait_and_is_listed(load: Any, tmp_path: Path) -> None:
    history = load("load_history")
    path = str(tmp_path / "muster.db")
    facts, since = history.write_past(path, 6_000, waiting=5)
    store = open_store(path)
    try:
        state: State = history.load(store)
        # All that was begun has ended, and every device is free again.
        assert len(state.view.jobs) == 5
        assert not state.gangs
        assert all(node.free == 0b1111 for node in state.view.cluster.nodes)
        assert facts == store.last_seq() >= 6_000
        saved = store.latest()
        assert saved is not None
        assert since == facts - saved.seq > 0
        counts = store.counts()
        assert counts.pop("waiting") == 5
        assert counts == {"succeeded": (facts - 10) // 7}
    finally:
        store.close()


def test_a_stream_counts_what_was_answered_and_what_was_refused(load: Any) -> None:
    client = load("load_client")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_answer, args=(listening,), daemon=True).start()
        address = client.Address("127.0.0.1", listening.getsockname()[1], "secret")
        asked = (client.request(address, "GET", "/good"), client.request(address, "GET", "/bad"))
        with client.Caller(address) as caller:
            found = client.run([caller], client.Stream(asked, 1, count=5), lambda: False)
    assert (len(found.seconds), found.refused) == (3, 2)
    assert found.rate > 0


def test_a_quantile_is_one_of_the_values(load: Any) -> None:
    quantile = load("load_client").quantile
    values = [float(i) for i in range(100, 0, -1)]
    assert [quantile(values, part) for part in (0.0, 0.5, 0.99, 1.0)] == [1.0, 51.0, 100.0, 100.0]


def _answer(listening: socket.socket) -> None:
    """Answer in two pieces, as a network may."""
    connection, _ = listening.accept()
    with connection:
        while data := connection.recv(4096):
            status = b"200 OK" if b"/good" in data else b"429 Too Many Requests"
            connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 4\r\n\r\nab")
            connection.sendall(b"cd")
