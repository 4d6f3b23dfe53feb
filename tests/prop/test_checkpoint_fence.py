"""Of writers that follow each other, only the last one's checkpoints count, however their steps mix."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.runtime.state.fence import (
    FencedError,
    WriterFence,
    WriterTerm,
    WriterTerms,
    claimed,
    counting,
    saved_name,
)
from muster.runtime.state.owner import CheckpointOwner, WriterClaim
from muster.runtime.state.places import Fill, LocalFolder

ADA = CheckpointOwner("train", "ada")


@dataclass
class Shelf:
    """A place in memory: what is written is seen by whoever lists it afterwards, nothing more."""

    files: dict[str, bytes] = field(default_factory=dict)

    def names(self) -> list[str]:
        return list(self.files)

    def read(self, name: str) -> bytes:
        return self.files[name]

    def create(self, name: str, data: bytes) -> bool:
        return self.files.setdefault(name, data) is data

    def write(self, name: str, fill: Fill) -> None:
        raise NotImplementedError

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        yield BytesIO(self.files[name])

    def remove(self, name: str) -> None:
        self.files.pop(name, None)

    def address(self, name: str) -> str:
        return f"shelf/{name}"


@dataclass
class Writer:
    """A writer whose every look and every write may come before or after those of others."""

    shelf: Shelf
    attempt: int
    fence: WriterFence = field(init=False)
    claim: int = 0
    fenced: bool = False

    def __post_init__(self) -> None:
        claim = WriterClaim(ADA, "run", attempt=self.attempt)
        self.fence = WriterFence(self.shelf, claim, WriterTerms())

    def begin(self) -> None:
        """Claim and look for what to start from."""
        try:
            self.fence.take(begins=True)
            self.claim = self.fence.top.number
        except FencedError:
            self.fenced = True

    def write(self, step: int) -> None:
        """Write without looking: it was suspended after it had looked."""
        if self.claim and not self.fenced:
            self.shelf.files[saved_name(step, self.claim)] = f"{self.attempt}:{step}".encode()

    def look(self) -> None:
        """Look, as before and after every checkpoint."""
        if self.claim and not self.fenced:
            try:
                self.fence.take()
                self.fence.check()
            except FencedError:
                self.fenced = True


def newest(shelf: Shelf) -> bytes | None:
    names = shelf.names()
    count = counting(names, claimed(shelf, names))
    return shelf.files[count[0].name] if count else None


Script = list[tuple[int, str, int]]
acts = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["begin", "write", "look"]), st.integers(1, 50)),
    max_size=40,
)


@given(acts)
def test_what_an_earlier_writer_adds_later_is_never_the_newest(
    script: list[tuple[int, str, int]],
) -> None:
    shelf = Shelf()
    writers = [Writer(shelf, attempt) for attempt in range(4)]
    found: bytes | None = None
    for number, act, step in script:
        writer = writers[number]
        top = max((each.attempt for each in writers if each.claim), default=-1)
        if act == "write":
            writer.write(step)
        elif act == "look":
            writer.look()
        elif not writer.claim:
            writer.begin()
        if writer.attempt < top:
            assert newest(shelf) == found, "a writer that was given up changed what counts"
        found = newest(shelf)


@given(acts)
def test_an_earlier_writer_learns_of_it_when_it_looks(script: Script) -> None:
    shelf = Shelf()
    writers = [Writer(shelf, attempt) for attempt in range(4)]
    for number, act, step in script:
        writer = writers[number]
        if act == "write":
            writer.write(step)
        elif act == "begin" and not writer.claim:
            writer.begin()
        else:
            writer.look()
    top = max((each.attempt for each in writers if each.claim), default=-1)
    for writer in writers:
        writer.look()
        assert writer.fenced or not writer.claim or writer.attempt == top


def fence(
    folder: Path, attempt: int = 1, term: int = 0, heard: bool = True, half: str = ""
) -> WriterFence:
    terms = WriterTerms(lambda: WriterTerm(term, half), lambda: heard)
    return WriterFence(LocalFolder(folder), WriterClaim(ADA, "run", attempt=attempt), terms)


def test_all_members_of_a_run_share_its_claim(tmp_path: Path) -> None:
    first, second = fence(tmp_path), fence(tmp_path)
    first.take(begins=True)
    second.take()
    assert first.top == second.top
    first.check()


def test_the_half_of_a_run_that_nobody_hears_of_claims_nothing(tmp_path: Path) -> None:
    fence(tmp_path, term=1).take(begins=True)
    with pytest.raises(FencedError, match="the coordinator has not heard of it yet"):
        fence(tmp_path, term=2, heard=False, half="cut off").take()
    heard = fence(tmp_path, term=2, half="in reach")
    heard.take()
    with pytest.raises(FencedError, match="this one was given up"):
        fence(tmp_path, term=2, half="cut off").take()
    with pytest.raises(FencedError, match="this one was given up"):
        fence(tmp_path, term=1).take()
    heard.check()


def test_a_run_that_begins_again_may_count_its_members_from_one(tmp_path: Path) -> None:
    fence(tmp_path, term=7).take(begins=True)
    fence(tmp_path, term=1).take(begins=True)
    fence(tmp_path, attempt=2, term=1).take(begins=True)
    with pytest.raises(FencedError, match=r"a later run writes to .* process"):
        fence(tmp_path, attempt=1, term=9).take(begins=True)


def test_few_claims_are_kept(tmp_path: Path) -> None:
    for attempt in range(20):
        fence(tmp_path, attempt).take(begins=True)
    assert len(list(tmp_path.iterdir())) <= 5
