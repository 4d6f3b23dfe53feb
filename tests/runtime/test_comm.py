"""Sums over members: the same contract for every way, over real gloo."""

import gc
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from muster.runtime.comm import nccl
from muster.runtime.comm.base import Communicator
from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.ring import Ring
from muster.runtime.comm.sharded import CHUNK, Sharded, cut
from muster.runtime.errors import BrokenGroupError

from .comm_members import together

Build = Callable[[GlooGroup, Sequence[Tensor]], Communicator]

SIZES = (70_000, 1, 0, 2, 200_001)
"""Elements of the buckets: more than a chunk, fewer than there are owners, none at all."""
AN_HOUR = 3600.0


def even(group: GlooGroup, flats: Sequence[Tensor]) -> Communicator:
    return Sharded(group, flats, dict.fromkeys(range(group.size), 1.0))


def uneven(group: GlooGroup, flats: Sequence[Tensor]) -> Communicator:
    return Sharded(group, flats, {0: 0.7, 1: 0.3, 2: 0.0})


WAYS: dict[str, Build] = {"ring": Ring, "even owners": even, "unequal owners": uneven}


def one_step(communicator: Communicator, flats: Sequence[Tensor]) -> None:
    communicator.begin()
    for bucket in range(len(flats)):
        communicator.put(bucket)
    communicator.finish()


def fill(flats: Sequence[Tensor], rank: int, step: int) -> None:
    for flat in flats:
        flat.copy_((torch.arange(flat.numel()) % 7 + rank + 10 * step).to(flat.dtype))


def all_ranks_of(total: int, size: int, step: int) -> Tensor:
    """The sum of `fill` over the ranks 0 to size-1: size (i mod 7 + 10 step) + size (size-1)/2."""
    return size * (torch.arange(total) % 7 + 10 * step) + size * (size - 1) // 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("way", WAYS)
def test_every_member_gets_the_sum_of_every_bucket(way: str, dtype: torch.dtype) -> None:
    def act(group: GlooGroup) -> list[Tensor]:
        flats = [torch.zeros(size, dtype=dtype) for size in SIZES] + [torch.zeros(9)]
        communicator = WAYS[way](group, flats)
        for step in range(3):
            fill(flats, group.rank, step)
            one_step(communicator, flats)
        communicator.close()
        return flats

    for flats in together(3, act):
        for size, flat in zip((*SIZES, 9), flats, strict=True):
            # At most 3 (6 + 20) + 3 = 81: whole numbers that all these types hold exactly.
            assert torch.equal(flat.long(), all_ranks_of(size, 3, 2))


def test_buckets_of_different_types_in_one_step() -> None:
    def act(group: GlooGroup) -> list[Tensor]:
        kinds = (torch.float64, torch.float16, torch.float32)
        flats = [torch.ones(100_000, dtype=dtype) for dtype in kinds] + [torch.ones(4)]
        communicator = even(group, flats)
        one_step(communicator, flats)
        communicator.close()
        return flats

    for flats in together(2, act):
        assert all(bool((flat == 2).all()) for flat in flats)


def test_buckets_put_in_another_order_than_they_are_numbered() -> None:
    def act(group: GlooGroup) -> list[Tensor]:
        flats = [
            torch.full((90_000,), 1.0),
            torch.full((5,), 2.0),
            torch.full((70_000,), 3.0),
            torch.ones(4),
        ]
        communicator = even(group, flats)
        communicator.begin()
        for bucket in (2, 0, 1, 3):
            communicator.put(bucket)
        communicator.finish()
        communicator.close()
        return flats

    for flats in together(3, act):
        assert [float(flat[0]) for flat in flats] == [3, 6, 9, 3]


def test_servers_sum_without_gradients_or_memory_of_their_own() -> None:
    """Ranks 0 and 1 train, 2 and 3 own; all four are in the last flat's sum."""

    def act(group: GlooGroup) -> list[Tensor]:
        server = group.rank >= 2
        device = "meta" if server else "cpu"
        flats = [torch.empty(size, device=device) for size in SIZES] + [torch.empty(4)]
        communicator = Sharded(group, flats, {2: 0.75, 3: 0.25}, range(2))
        for step in range(2):
            fill(flats[-1:] if server else flats, group.rank, step)
            communicator.begin()
            for bucket in (len(SIZES),) if server else range(len(flats)):
                communicator.put(bucket)
            communicator.finish()
        communicator.close()
        return flats

    answers = together(4, act)
    for flats in answers[:2]:
        for size, flat in zip(SIZES, flats[:-1], strict=True):
            assert torch.equal(flat.long(), all_ranks_of(size, 2, 1))
    for flats in answers:
        assert torch.equal(flats[-1].long(), all_ranks_of(4, 4, 1))


def test_an_owner_may_change_what_it_sends_back() -> None:
    def act(group: GlooGroup) -> tuple[Tensor, list[tuple[int, int, int]]]:
        seen: list[tuple[int, int, int]] = []

        def halve(bucket: int, begin: int, end: int, summed: Tensor) -> None:
            seen.append((bucket, begin, end))
            summed.mul_(0.5)

        flats = [torch.full((10,), group.rank + 1.0), torch.ones(2)]
        communicator = Sharded(group, flats, {0: 0.5, 1: 0.5}, after_sum=halve)
        one_step(communicator, flats)
        communicator.close()
        return flats[0], seen

    (first, of_first), (second, of_second) = together(2, act)
    assert first.tolist() == second.tolist() == [1.5] * 10  # (1 + 2)/2
    assert (of_first, of_second) == ([(0, 0, 5)], [(0, 5, 10)])


def test_an_error_of_the_owners_own_work_reaches_finish() -> None:
    def act(group: GlooGroup) -> str:
        def fail(bucket: int, begin: int, end: int, summed: Tensor) -> None:
            raise ArithmeticError("no such update")

        flats = [torch.ones(10), torch.ones(2)]
        communicator = Sharded(group, flats, {0: 1.0}, after_sum=fail if group.rank == 0 else None)
        try:
            one_step(communicator, flats)
        except (ArithmeticError, BrokenGroupError) as problem:
            return type(problem).__name__
        finally:
            communicator.close()
        return ""

    assert together(2, act) == ["ArithmeticError", "BrokenGroupError"]


@pytest.mark.parametrize("way", WAYS)
def test_closing_by_another_thread_frees_who_waits(way: str) -> None:
    """Rank 0 waits for members that never put anything, until its own side is closed."""
    waiting = threading.Barrier(3)

    def act(group: GlooGroup) -> str:
        flats = [torch.ones(100_000), torch.ones(4)]
        communicator = WAYS[way](group, flats)
        if group.rank > 0:
            waiting.wait()  # rank 0 is out; nobody closes before
            communicator.close()
            return ""
        communicator.begin()
        communicator.put(0)
        closer = threading.Timer(0.2, communicator.close)  # earlier or later, the outcome is the same
        closer.start()
        try:
            communicator.finish()
        except BrokenGroupError as problem:
            return str(problem)
        finally:
            closer.join()
            communicator.close()
            waiting.wait()
        return ""

    assert together(3, act, deadline=AN_HOUR)[0]  # it is not the deadline that frees it


@pytest.mark.parametrize("way", WAYS)
def test_a_closed_communicator_says_so(way: str) -> None:
    def act(group: GlooGroup) -> None:
        flats = [torch.ones(400), torch.ones(4)]
        communicator = WAYS[way](group, flats)
        communicator.close()
        communicator.close()
        with pytest.raises(BrokenGroupError, match="closed"):
            one_step(communicator, flats)

    together(3, act)


def test_what_is_put_while_somebody_closes_is_not_waited_for() -> None:
    def act(group: GlooGroup) -> None:
        communicator = even(group, [torch.ones(400), torch.ones(4)])
        communicator.begin()
        communicator.close()
        communicator.put(0)
        with pytest.raises(BrokenGroupError, match="closed"):
            communicator.finish()

    together(2, act, deadline=60)


def test_a_member_that_does_not_come_is_noticed_at_the_deadline() -> None:
    out = threading.Barrier(2)

    def act(group: GlooGroup) -> bool:
        flats = [torch.ones(100), torch.ones(4)]
        communicator = even(group, flats)
        if group.rank == 0:
            with pytest.raises(BrokenGroupError):
                one_step(communicator, flats)
        out.wait()
        communicator.close()
        return True

    began = time.monotonic()
    assert all(together(2, act, deadline=1.0))
    assert time.monotonic() - began > 0.9  # and not before


@pytest.mark.parametrize("broken", [False, True])
def test_a_hundred_formations_leak_no_thread_and_no_descriptor(broken: bool) -> None:
    """Each of two members, two threads and their sockets; closed at rest, and with work under way."""

    def act(group: GlooGroup) -> None:
        flats = [torch.ones(1000), torch.ones(4)]
        communicator = even(group, flats)
        with suppress(BrokenGroupError):  # the other one may have closed already
            one_step(communicator, flats)
            if broken:
                communicator.begin()
                communicator.put(group.rank)  # not the same: neither can end
        communicator.close()

    def used() -> tuple[int, int]:
        gc.collect()
        for thread in threading.enumerate():  # the store's end when their clients' connections do
            if thread is not threading.current_thread() and thread.name.startswith("store"):
                thread.join(10)
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    for _ in range(3):
        together(2, act)
    before = used()
    for _ in range(100):
        together(2, act)
    assert used() <= before


# --- cutting -------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=4),
    st.lists(st.floats(0, 1), min_size=1, max_size=5).filter(lambda shares: sum(shares) > 1e-3),
)
def test_every_element_has_one_owner_who_has_its_share(sizes: list[int], shares: list[float]) -> None:
    limit = 100
    chunks = cut(sizes, [limit] * len(sizes), dict(enumerate(shares)))
    assert [chunk.tag for chunk in chunks] == list(range(len(chunks)))
    assert all(0 < chunk.end - chunk.begin <= limit for chunk in chunks)
    for bucket, size in enumerate(sizes):
        mine = sorted((c for c in chunks if c.bucket == bucket), key=lambda c: c.begin)
        at = 0
        for chunk in mine:
            assert chunk.begin == at
            at = chunk.end
        assert at == size
        for owner, share in enumerate(shares):
            held = sum(c.end - c.begin for c in mine if c.owner == owner)
            assert abs(held - size * share / sum(shares)) <= 1 + 1e-6 * size


def test_owners_take_turns_in_a_bucket() -> None:
    """Shares 2:1 of 600 in chunks of 100: positions 0 1/4 2/4 3/4 of owner 0, 0 1/2 of owner 1."""
    chunks = cut([600], [100], {0: 2.0, 1: 1.0})
    assert [(c.owner, c.begin) for c in chunks] == [
        (0, 0), (1, 400), (0, 100), (0, 200), (1, 500), (0, 300)
    ]  # fmt: skip
    assert CHUNK == 65_536 * 4


# --- nccl ----------------------------------------------------------------------------------------


def test_without_nccl_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.is_nccl_available", lambda: False)

    def act(group: GlooGroup) -> None:
        with pytest.raises(BrokenGroupError, match="CUDA build"):
            nccl.Nccl(group, [torch.ones(1)])

    together(1, act)


def test_nccl_refuses_gradients_in_host_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.is_nccl_available", lambda: True)

    def act(group: GlooGroup) -> None:
        with pytest.raises(BrokenGroupError, match="host memory"):
            nccl.Nccl(group, [torch.ones(1), torch.ones(1)])

    together(1, act)
