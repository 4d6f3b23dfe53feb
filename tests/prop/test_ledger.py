"""The ledger against a naive one that keeps a list of who holds which device."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.quotas.ledger import Approved, Ledger, Rejected, Why
from muster.model.job import Need
from muster.model.placement import Claim, Slot
from tests.builders import GB, cluster, node_set, slot, view

EVERY = settings(max_examples=150, deadline=None, derandomize=True, database=None)
NODES, DEVICES, CORES = 3, 4, 6
KIND = node_set(devices=DEVICES, cores=CORES, memory=6 * GB)


@dataclass(slots=True)
class Naive:
    """Every held slot in one list; every question a walk over it."""

    holdings: list[tuple[int, Slot]] = field(default_factory=list)
    version: int = 0

    def holder(self, node: str, bit: int) -> int | None:
        found = [job for job, s in self.holdings if s.node == node and s.bits >> bit & 1]
        assert len(found) <= 1
        return found[0] if found else None

    def accepts(self, claim: Claim) -> bool:
        rest = list(self.holdings)
        for place in claim.gives:
            if (claim.job, place) not in rest:
                return False
            rest.remove((claim.job, place))
        for place in claim.takes:
            if (claim.job, place) in rest:
                return False
            rest.append((claim.job, place))
        return all(fits([s for _, s in rest if s.node == f"n{i}"]) for i in range(NODES))

    def apply(self, claim: Claim) -> None:
        for place in claim.gives:
            self.holdings.remove((claim.job, place))
        self.holdings += [(claim.job, place) for place in claim.takes]
        self.version += 1


def fits(slots: list[Slot]) -> bool:
    bits = [bit for s in slots for bit in range(DEVICES + 1) if s.bits >> bit & 1]
    return (
        len(bits) == len(set(bits))
        and DEVICES not in bits
        and sum(s.need.millicores for s in slots) <= CORES * 1_000
        and sum(s.need.memory for s in slots) <= 6 * GB
    )


@st.composite
def slots(draw: st.DrawFn) -> Slot:
    """Mostly one or two devices; now and then none, or one that is not there."""
    bits = draw(st.sampled_from([0, 1, 2, 4, 8, 3, 12, 6, 1 << DEVICES]))
    need = Need(
        bits.bit_count(), draw(st.sampled_from([0, 1_000, 2_500])), draw(st.sampled_from([0, GB]))
    )
    return slot(f"n{draw(st.integers(0, NODES - 1))}", bits, draw(st.integers(0, 1)), need=need)


@dataclass(frozen=True, slots=True)
class Move:
    """One act of a history: a claim, or the release of a job."""

    job: int
    takes: tuple[Slot, ...]
    gives: tuple[int, ...]
    """Which of the job's slots it gives back, by position; beyond them, somebody else's."""
    behind: int
    release: bool


MOVES = st.lists(
    st.builds(
        Move,
        job=st.sampled_from([1, 2, 3, 4]),
        takes=st.lists(slots(), max_size=3).map(tuple),
        gives=st.lists(st.integers(0, 2), max_size=2).map(tuple),
        behind=st.integers(0, 5),
        release=st.sampled_from([False] * 9 + [True]),
    ),
    min_size=10,
    max_size=30,
)


def claim_of(move: Move, naive: Naive) -> Claim:
    own = [s for job, s in naive.holdings if job == move.job]
    others = [s for job, s in naive.holdings if job != move.job]
    pick = [*own, *others]
    gives = tuple(pick[i] for i in move.gives if i < len(pick))
    return Claim(move.job, max(0, naive.version - move.behind), move.takes, gives)


def check_conflicts(naive: Naive, claim: Claim, answer: Rejected) -> None:
    """Bits said to be held are held, by those named, and were asked for; and nothing is missed."""
    kept = [s for s in claim.takes if s.bits]
    given = {(s.node, bit) for s in claim.gives for bit in range(DEVICES) if s.bits >> bit & 1}
    expected: set[tuple[str, int]] = {
        (s.node, bit)
        for s in kept
        for bit in range(DEVICES)
        if s.bits >> bit & 1 and naive.holder(s.node, bit) and (s.node, bit) not in given
    }
    named: set[tuple[str, int]] = set()
    for conflict in answer.conflicts:
        if conflict.why is Why.HELD:
            bits = [bit for bit in range(DEVICES) if conflict.bits >> bit & 1]
            holders = {naive.holder(conflict.node, bit) for bit in bits}
            assert set(conflict.holders) == holders
            named |= {(conflict.node, bit) for bit in bits}
    if not any(conflict.why is Why.NOT_YOURS for conflict in answer.conflicts):
        assert named == expected


def compare(ledger: Ledger, naive: Naive) -> None:
    seen = ledger.snapshot()
    assert seen.version == naive.version
    for i in range(NODES):
        there = [s for _, s in naive.holdings if s.node == f"n{i}"]
        assert seen.free[i] == KIND.all_devices - sum(s.bits for s in there)
        assert seen.millicores[i] == KIND.millicores - sum(s.need.millicores for s in there)
        assert seen.memory[i] == KIND.memory - sum(s.need.memory for s in there)
    for number in (1, 2, 3, 4):
        assert set(ledger.held(number)) == {s for job, s in naive.holdings if job == number}


@EVERY
@given(MOVES)
def test_the_ledger_answers_like_the_naive_one(moves: list[Move]) -> None:
    ledger, naive = Ledger.of(view(cluster(NODES, KIND))), Naive()
    for move in moves:
        if move.release:
            naive.version += any(job == move.job for job, _ in naive.holdings)
            naive.holdings = [(job, s) for job, s in naive.holdings if job != move.job]
            assert ledger.release(move.job) == naive.version
        else:
            asked = claim_of(move, naive)
            wanted = naive.accepts(asked)
            answer = ledger.commit(asked)
            assert isinstance(answer, Approved) == wanted, answer
            if isinstance(answer, Rejected):
                check_conflicts(naive, asked, answer)
            else:
                naive.apply(asked)
        compare(ledger, naive)


@EVERY
@given(MOVES, st.integers(0, 100))
def test_the_answer_does_not_depend_on_how_old_the_claim_is(moves: list[Move], age: int) -> None:
    fresh, late = (Ledger.of(view(cluster(NODES, KIND), version=100)) for _ in range(2))
    for move in moves:
        version = fresh.snapshot().version
        one = fresh.commit(Claim(move.job, version, move.takes))
        other = late.commit(Claim(move.job, version - age, move.takes))
        assert one == other


@EVERY
@given(MOVES)
def test_a_rejected_claim_leaves_no_trace(moves: list[Move]) -> None:
    ledger = Ledger.of(view(cluster(NODES, KIND)))
    for move in moves:
        before = ledger.snapshot(), ledger.held(move.job)
        if isinstance(ledger.commit(Claim(move.job, 0, move.takes)), Rejected):
            assert (ledger.snapshot(), ledger.held(move.job)) == before
