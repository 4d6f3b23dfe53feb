"""Iterable datasets: shards are leased, and read to their end by somebody."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.runtime.data.leases import ShardLease, ShardLeases, ShardReader, Taken
from muster.runtime.errors import BadTrainingError

EVERY = settings(max_examples=200, deadline=None, derandomize=True, database=None)


class Words:
    """Shard i has sizes[i] samples, (i, 0), (i, 1), ...; counts how often each is opened.

    Unless it is repeatable, each time with another one first.
    """

    def __init__(
        self, *sizes: int, bad: tuple[int, int] | None = None, repeatable: bool = True
    ) -> None:
        self.sizes, self.bad, self.repeatable = sizes, bad, repeatable
        self.opened: Counter[int] = Counter()

    def shards(self) -> int:
        return len(self.sizes)

    def shard(self, i: int) -> Iterator[tuple[int, int]]:
        first = 0 if self.repeatable else self.opened[i]
        self.opened[i] += 1
        for n in range(self.sizes[i]):
            if (i, n) == self.bad:
                raise OSError("torn tape")
            yield i, (first + n) % self.sizes[i]


def lease(shard: int, far: int = 0) -> ShardLease:
    return ShardLease(0, shard, "a", far)


def shards_of(leases: ShardLeases, task: str) -> list[tuple[int, int]]:
    return [(held.epoch, held.shard) for held in leases.of(task)]


def over(leases: ShardLeases) -> bool:
    return leases.epochs is not None and leases.epoch >= leases.epochs


def test_everybody_gets_one_before_anybody_gets_two() -> None:
    leases = ShardLeases(3, epochs=1).grant(["a", "b"], each=2)
    assert [held.holder for held in leases.held] == ["a", "b", "a"]
    assert len(set(shards_of(leases, "a") + shards_of(leases, "b"))) == 3


def test_an_epoch_without_shards_left_goes_on_with_the_next() -> None:
    leases = ShardLeases(2).grant(["a", "b", "c"], each=1)
    assert [held.epoch for held in leases.held] == [0, 0, 1]
    assert leases.epoch == 0
    leases = leases.commit("a", 1, 0).commit("b", 1, 0)
    assert leases.epoch == 1


def test_after_the_last_epoch_nothing_is_granted() -> None:
    leases = ShardLeases(1, epochs=1).grant(["a", "b"], each=2)
    assert len(leases.held) == 1
    assert not over(leases)
    done = leases.commit("a", 1, 0)
    assert over(done)
    assert done.grant(["a", "b"], each=2) == done


def test_what_is_done_is_never_granted_again_in_its_epoch() -> None:
    leases, seen = ShardLeases(4, seed=2, epochs=2), []
    while not over(leases):
        leases = leases.grant(["a"], each=1)
        seen += shards_of(leases, "a")
        leases = leases.commit("a", 1, 0)
    assert sorted(seen) == [(epoch, shard) for epoch in (0, 1) for shard in range(4)]


def test_epochs_have_orders_of_their_own() -> None:
    held = ShardLeases(20, epochs=2).grant(["a"], each=40).held
    assert [lease.shard for lease in held[:20]] != [lease.shard for lease in held[20:]]


def test_a_lost_workers_shard_goes_on_where_the_last_commit_stood() -> None:
    leases = ShardLeases(1, epochs=1, repeatable=True).grant(["a"], 1).commit("a", 0, 7)
    after = leases.lost(["a"]).grant(["b"], 1)
    assert after.of("a") == ()
    assert after.of("b") == (ShardLease(0, 0, "b", 7),)


def test_a_lost_workers_shard_that_is_never_the_same_is_begun_again() -> None:
    leases = ShardLeases(1, epochs=1).grant(["a"], 1).commit("a", 0, 7)
    assert leases.lost(["a"]).grant(["b"], 1).of("b") == (ShardLease(0, 0, "b", 0),)


def test_a_worker_that_gets_its_own_shard_back_begins_it_again() -> None:
    shards = ShardReader(Words(5))
    shards.take([lease(0)], 2)
    shards.take([lease(0, far=2)], 2)
    assert shards.take([lease(0)], 2).samples == [(0, 0), (0, 1)]


def test_a_worker_cannot_finish_what_it_does_not_hold() -> None:
    with pytest.raises(ValueError, match="b holds 0 leases"):
        ShardLeases(2).grant(["a"], 1).commit("b", 1, 0)


def test_leases_come_back_out_of_their_value() -> None:
    leases = ShardLeases(3, seed=5, epochs=2).grant(["a", "b"], 1).commit("a", 0, 9).lost(["b"])
    value = leases.value()
    assert ShardLeases.restored(value) == leases
    older = {key: [[*lease, 3] for lease in value[key]] for key in ("held", "back")}
    assert ShardLeases.restored({**value, **older}) == leases


def test_samples_come_from_one_lease_after_another() -> None:
    shards = ShardReader(Words(3, 2))
    assert shards.take([lease(0), lease(1)], 2) == Taken([(0, 0), (0, 1)], 0, 2)
    assert shards.take([lease(0, far=2), lease(1)], 2) == Taken([(0, 2), (1, 0)], 1, 1)
    assert shards.take([lease(1, far=1)], 2) == Taken([(1, 1)], 1, 0)


def test_the_end_of_a_shard_is_seen_with_its_last_sample() -> None:
    assert ShardReader(Words(2)).take([lease(0)], 2) == Taken([(0, 0), (0, 1)], 1, 0)


def test_an_empty_shard_is_finished_at_once() -> None:
    assert ShardReader(Words(0, 1)).take([lease(0), lease(1)], 3) == Taken([(1, 0)], 2, 0)


def test_a_lost_step_gives_the_same_samples_again_without_reading_them_again() -> None:
    data = Words(9)
    shards = ShardReader(data)
    first = shards.take([lease(0)], 4)
    assert shards.take([lease(0)], 4) == first
    assert shards.take([lease(0)], 2).samples == first.samples[:2]
    assert shards.take([lease(0, far=4)], 2).samples == [(0, 4), (0, 5)]
    assert data.opened == {0: 1}


def test_a_new_holder_skips_what_is_committed() -> None:
    assert ShardReader(Words(9)).take([lease(0, far=6)], 2) == Taken([(0, 6), (0, 7)], 0, 8)


def test_a_shard_that_is_shorter_the_second_time_is_finished() -> None:
    assert ShardReader(Words(3)).take([lease(0, far=6)], 2) == Taken([], 1, 0)


def test_an_error_names_the_shard_and_the_sample() -> None:
    with pytest.raises(BadTrainingError, match=r"shard 1 .* after sample 2: OSError: torn tape"):
        ShardReader(Words(1, 5, bad=(1, 2))).take([lease(1)], 4)


def test_a_dataset_without_shards_is_refused() -> None:
    with pytest.raises(BadTrainingError, match="list has no shards and no shard"):
        ShardReader([1, 2])
    with pytest.raises(BadTrainingError, match="at least 1"):
        ShardReader(Words())


@dataclass
class Job:
    """Workers that read a dataset by leases; `seen` counts the samples of committed steps."""

    data: Words
    leases: ShardLeases
    workers: dict[str, ShardReader] = field(default_factory=dict)
    seen: Counter[tuple[int, tuple[int, int]]] = field(default_factory=Counter)
    completed: Counter[tuple[int, int]] = field(default_factory=Counter)
    born: int = 0
    least: int = 1
    left_out: int = 0

    def join(self) -> None:
        self.workers[f"w{self.born}"] = ShardReader(self.data)
        self.born += 1

    def die(self, place: int) -> None:
        if self.workers:
            task = sorted(self.workers)[place % len(self.workers)]
            del self.workers[task]
            self.leases = self.leases.lost([task])

    def happen(self, what: str, number: int) -> None:
        if what == "join":
            self.join()
        elif what == "die":
            self.die(number)
        elif what == "restore":
            self.leases = ShardLeases.restored(self.leases.value())
        else:
            self.take(number, lost=what == "lost")

    def take(self, share: int, lost: bool = False) -> None:
        """A step in which every worker takes its share."""
        self.leases = self.leases.grant(sorted(self.workers), 2)
        holds = 2 if self.leases.has_more else 0
        took = {
            task: reader.take_enough(self.leases.of(task), share, self.least, holds)
            for task, reader in self.workers.items()
        }
        assert not any(0 < len(taken.samples) < self.least for taken in took.values())
        if lost:
            return
        self.left_out += sum(taken.left_out for taken in took.values())
        for task, taken in took.items():
            mine = self.leases.of(task)
            self.completed.update((held.epoch, held.shard) for held in mine[: taken.finished])
            # Samples say their shard but not their epoch: what finished leases had left came first.
            samples = iter(taken.samples)
            for held in mine[: taken.finished]:
                rest = islice(samples, self.data.sizes[held.shard] - held.far)
                self.seen.update((held.epoch, sample) for sample in rest)
            self.seen.update((mine[taken.finished].epoch, sample) for sample in samples)
            self.leases = self.leases.commit(task, taken.finished, taken.far)


HISTORY = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.just(0)),
        st.tuples(st.just("die"), st.integers(0, 5)),
        st.tuples(st.just("step"), st.integers(0, 7)),
        st.tuples(st.just("lost"), st.integers(1, 7)),
        st.tuples(st.just("restore"), st.just(0)),
    ),
    max_size=60,
)


@EVERY
@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 3), st.booleans(), HISTORY)
def test_over_any_history_every_shard_is_read_to_its_end(
    sizes: list[int], seed: int, repeatable: bool, history: list[tuple[str, int]]
) -> None:
    epochs = 2
    data = Words(*sizes, repeatable=repeatable)
    job = Job(data, ShardLeases(len(sizes), seed, epochs, repeatable))
    job.join()
    for what, number in history:
        job.happen(what, number)
    job.join()
    for _ in range(200):
        if over(job.leases):
            break
        job.take(3)
    everything = {
        (e, (i, n)) for e in range(epochs) for i, size in enumerate(sizes) for n in range(size)
    }
    assert over(job.leases)
    assert job.completed == Counter((e, i) for e in range(epochs) for i in range(len(sizes)))
    assert set(job.seen) == everything
    if repeatable or "die" not in {what for what, _ in history}:
        assert job.seen == Counter(everything)


@EVERY
@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(1, 4), HISTORY)
def test_nobody_gets_a_single_sample_where_two_are_needed(
    sizes: list[int], share: int, history: list[tuple[str, int]]
) -> None:
    job = Job(Words(*sizes), ShardLeases(len(sizes), 0, 2, repeatable=True), least=2)
    job.join()
    for what, number in history:
        job.happen(what, number)
    job.join()
    for _ in range(200):
        if over(job.leases):
            break
        job.take(share)
    assert over(job.leases)
    assert sum(job.seen.values()) + job.left_out == 2 * sum(sizes)
    assert job.left_out <= job.born


def test_the_last_of_several_samples_is_not_left_alone() -> None:
    leases = ShardLeases(1, epochs=1).grant(["a"], each=2)
    reader, sizes = ShardReader(Words(9)), []
    while held := leases.of("a"):
        taken = reader.take_enough(held, 4, 2, 0)
        sizes.append(len(taken.samples))
        leases = leases.commit("a", taken.finished, taken.far)
    assert sizes == [4, 3, 2]
