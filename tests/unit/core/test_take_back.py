"""What a policy takes from a job that nobody can use is given back in the same cycle."""

from dataclasses import replace

from muster.core.cycle.cycle import Memory, decide
from muster.model.decision import Kind
from muster.model.job import Locality
from muster.model.outlook import Outlook, Table
from muster.model.reason import Code
from muster.model.topology import Level
from muster.policy.base import exactly
from tests.builders import cluster, job, node_set, running, view
from tests.numbers import number
from tests.unit.core.test_steer import FOUR, Says, counts, on, steer, two_pools

ON_ONE = Locality(Level.NODE)


def test_a_job_is_not_stopped_for_one_that_would_not_fit_all_the_same() -> None:
    """w needs four on one node; without r there would be three."""
    fixed = [running(job(f"f{i}", preemptible=False), on(f"n{i}", 1)) for i in range(2)]
    r = running(job("r"), on("n0", 2))
    told, _ = steer(
        cluster(2, FOUR),
        [*fixed, r, job("w", 4, locality=ON_ONE)],
        exactly(number("r"), 0),
        exactly(number("w"), 4),
    )
    assert set(told) == {"w"}
    assert (told["w"].kind, told["w"].reason.code) == (Kind.WAIT, Code.WAITING_FRAGMENTED)


def test_of_two_that_are_stopped_the_one_that_is_not_needed_runs_on() -> None:
    """Either would do for w; the one that has run for longer would lose more."""
    old = running(job("old", 4), on("n0", 1, 2, 4, 8), started=0.0)
    new = running(job("new", 4), on("n1", 1, 2, 4, 8), started=900.0)
    nothing = exactly(number("old"), 0), exactly(number("new"), 0)
    told, _ = steer(cluster(2, FOUR), [old, new, job("w", 4)], *nothing, exactly(number("w"), 4))
    assert (told["new"].kind, told["new"].reason.beneficiary) == (Kind.PREEMPT, "w")
    assert "old" not in told


def test_what_could_start_with_less_starts_when_nothing_is_coming_after_all() -> None:
    """j may only be on one node. It wants four: r's devices would not help."""
    r = running(job("r", 2), on("n0", 1, 2))
    fixed = [
        running(job("f", preemptible=False), on("n0", 4)),
        running(job("g", preemptible=False), on("n1", 1)),
    ]
    told, _ = steer(
        cluster(2, FOUR),
        [r, *fixed, job("j", 1, most=4, locality=ON_ONE)],
        exactly(number("r"), 0),
        exactly(number("j"), 4),
    )
    assert (told["j"].kind, counts(told["j"])) == (Kind.START, {"n1": 3})
    assert "r" not in told


def test_a_shrunk_job_keeps_what_the_one_it_was_meant_for_cannot_use() -> None:
    """e gives two of four; w needs four on one node, and there are never that many."""
    e = running(job("e", 1, most=4), on("n0", 1, 2, 4, 8))
    fixed = [running(job("f", preemptible=False), on("n1", 1))]
    asked = [exactly(number("e"), 2), exactly(number("w"), 4)]
    told, _ = steer(cluster(2, FOUR), [e, *fixed, job("w", 4, locality=ON_ONE)], *asked)
    assert set(told) == {"w"}
    # For one that fits beside it, it shrinks.
    told, _ = steer(
        cluster(1, FOUR), [e, job("w", 2)], exactly(number("e"), 2), exactly(number("w"), 2)
    )
    assert (told["e"].kind, counts(told["e"])) == (Kind.RESIZE, {"n0": 2})


def test_a_job_that_is_no_faster_with_more_shrinks_for_its_own_sake() -> None:
    e = running(job("e", 1, most=4), on("n0", 1, 2, 4, 8))
    seen = view(cluster(1, FOUR), [e, job("w", 4)])
    slower = {number("e"): Outlook(100.0, Table((1.0, 1.5, 1.4, 1.3)))}
    says = Says((exactly(number("e"), 2), exactly(number("w"), 4)))
    told = decide(says, replace(seen, outlooks=slower), 1000.0, Memory()).decisions
    assert {each.kind for each in told} == {Kind.RESIZE, Kind.WAIT}


def test_cores_count_as_well_as_devices() -> None:
    """w's worker takes all cores of a node beside r's: it could not start without r's going."""
    small = node_set(devices=4, cores=4)
    r = running(job("r"), on("n0", 1))
    need = job("w").workers.need
    w = job("w", need=type(need)(1, 4_000, need.memory))
    told, _ = steer(cluster(1, small), [r, w], exactly(number("r"), 0), exactly(number("w"), 1))
    assert told["r"].kind is Kind.PREEMPT
    told, _ = steer(cluster(2, small), [r, w], exactly(number("r"), 0), exactly(number("w"), 1))
    assert told["w"].kind is Kind.START and "r" not in told


def test_a_stop_that_a_limit_requires_stays() -> None:
    """The pool may have two of four: w can start only if one of its two jobs goes."""
    states = [running(job(name, pool="p"), on("n0", bit)) for name, bit in (("a", 1), ("b", 2))]
    told, _ = steer(
        cluster(1, FOUR),
        [*states, job("w", pool="p")],
        exactly(number("a"), 0),
        exactly(number("b"), 0),
        exactly(number("w"), 1),
        pools=two_pools(limit=2),
    )
    assert sorted(name for name in told if told[name].kind is Kind.PREEMPT) in (["a"], ["b"])
