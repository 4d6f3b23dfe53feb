"""A process with a store open, to be killed: `python -m tests.unit.store.child <what> <url>`."""

import resource
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from muster.store.batch import Batch
from muster.store.errors import StoreError
from muster.store.store import open_store
from tests.unit.store.samples import arrivals, record

BATCH = 10
"""Jobs in each batch that `write` writes."""


def write(url: str) -> None:
    """Write batch after batch until killed, and tell how many jobs are stored after each."""
    store = open_store(url)
    wait_for(store.claim)
    for first in count(store.highest() + 1, BATCH):
        store.write(arrivals(range(first, first + BATCH)))
        print(store.highest(), flush=True)


def wait_for(question: Callable[[], bool]) -> None:
    """Ask until the answer is yes: a database notices a little later that somebody is gone."""
    end = time.monotonic() + 60
    while not question():
        assert time.monotonic() < end
        time.sleep(0.01)


def claim(url: str) -> None:
    """Claim the store, tell whether that went well, and keep it until killed."""
    store = open_store(url)
    print(store.claim(), flush=True)
    sys.stdin.read()


def fill(url: str) -> None:
    """Write until the disk is full (no file may grow beyond a limit), then go on with more room."""
    store = open_store(url)
    store.write(arrivals((1,)))
    limit = Path(url).stat().st_size + 2**20
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        for number in count(2):
            store.write(Batch(arrivals((number,)).facts, (record(number, reason="x" * 100_000),)))
    except StoreError as problem:
        print(f"refused {type(problem).__name__}: {problem}", flush=True)
    full = store.highest()
    print("read", full, store.last_seq(), sum(store.counts().values()), flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print("written", *store.write(arrivals((full + 1,))), flush=True)


if __name__ == "__main__":
    {"write": write, "claim": claim, "fill": fill}[sys.argv[1]](sys.argv[2])
