"""Facts of the journal as `muster show` and `muster events` tell them."""

import re
from dataclasses import replace
from typing import get_args

import pytest

from muster.daemon.service.reading.event_text import change_of
from muster.model.event import (
    Cancelled,
    Checkpointed,
    DependencyMet,
    Ended,
    EndingChanged,
    JobHeld,
    JobReleased,
    MigrateBegun,
    Migrated,
    NodeAdded,
    NodeDraining,
    NodeLeft,
    NodeLost,
    NodeReturned,
    Outcome,
    PoolsSet,
    PreemptBegun,
    Preempted,
    Replanned,
    Reprioritised,
    Requeued,
    Reshaped,
    ResizeBegun,
    Resized,
    Skipped,
    StartBegun,
    Started,
    Submitted,
    TasksLost,
)
from muster.model.job import Role
from muster.model.offer import NodeOffer
from muster.model.plan import ChosenPlan, Sync
from muster.model.pool import single_pool
from muster.model.sweep import (
    Axis,
    MemberPromoted,
    MemberSubmitted,
    RungReached,
    Sweep,
    SweepDependencyMet,
    SweepEnded,
    SweepResized,
    SweepSkipped,
    SweepStopped,
    SweepSubmitted,
)
from muster.model.task import (
    ConvergenceSeen,
    Decided,
    Fact,
    GangStopping,
    PolicySet,
    RequeueAsked,
    RunBroken,
    RuntimeSeen,
    StopAsked,
    TaskEnded,
    TaskExited,
    TaskId,
    TaskOrdered,
)
from muster.store.batch import Journalled
from tests.builders import cluster, job, placement, slot

PLACED = placement(("n3", 1), ("n4", 1))
TASK = TaskId(1, 2, Role.WORKER, 5)
PLAN = ChosenPlan(Sync.RING, 0.02, runner_up=Sync.DEDICATED, runner_up_step=1.5)
SWEEP = Sweep(1, job("search", user="ann"), (Axis("lr", ("0.1", "1")),))
OFFER = NodeOffer("n0", 1_000, 10**9, 8, "A100", engine="slurm")
FACTS: list[tuple[Fact, str]] = [
    (Submitted(job("j", 1, most=4, user="ann", pool="lab"), 0.0), "ann.*lab.*1..4"),
    (StartBegun(1, 1, PLACED, 0.0), "start.*2.*n"),
    (ResizeBegun(1, 1, PLACED, 0.0), "2.*n"),
    (MigrateBegun(1, 1, PLACED, 0.0), "migrating.*2.*n"),
    (Started(1, 1, 0.0), "run"),
    (Resized(1, 2, 0.0), "2"),
    (Migrated(1, 2, 0.0), "2"),
    (PreemptBegun(1, 1, 0.0), "stop"),
    (Preempted(1, 1, 0.0), "stopped"),
    (Checkpointed(1, 1, 0.0), "checkpoint"),
    (TasksLost(1, 2, PLACED, 0.0), "lost.*2"),
    (Reshaped(1, job("j", 2, most=3).roles, 0.0), "2..3 workers"),
    (Reshaped(1, job("j", 1).roles, 0.0), "now asks for 1 worker$"),
    (Reshaped(1, job("j", 1).roles, 0.0, "3 failed"), "now asks for 1 worker: 3 failed$"),
    (Ended(1, 1, Outcome.FAILED, 0.0, "boom", 1), "failed"),
    (Ended(1, 1, Outcome.FAILED, 0.0, "ValueError: no\ntail", 1), "failed: ValueError: no$"),
    (Cancelled(1, 0.0), "cancelled"),
    (DependencyMet(1, 3, 0.0), "job 3 ended"),
    (Skipped(1, 3, 0.0, "job 3 (prep) failed"), r"skipped: job 3 \(prep\) failed"),
    (Requeued(1, 1, 0.0, 32.0), "waits"),
    (JobHeld(1, "ann", 0.0), "held by ann"),
    (JobReleased(1, "ann", 0.0), "released by ann"),
    (Reprioritised(1, 7, "ann", 0.0), "priority 7.*ann"),
    (EndingChanged(1, "loss < 0.1", "ann", 0.0), "ends by loss < 0.1.*ann"),
    (Replanned(1, 2, PLAN, 0.0), "plan: ring, predicted 20 ms a step; .*servers would take 1.50 s"),
    (NodeAdded(cluster(1).nodes[0], 0.0), "node n0 added$"),
    (NodeAdded(replace(cluster(1).nodes[0], offer=OFFER), 0.0), "node n0 added by slurm: 8 A100$"),
    (NodeLeft("n3", 0.0), "n3 left$"),
    (NodeLeft("n3", 0.0, "given back"), "n3 left: given back$"),
    (NodeLost("n3", 0.0), "n3.*lost"),
    (NodeLost("n3", 0.0, "silent for 30 s"), "n3 lost: silent for 30 s$"),
    (NodeReturned("n3", 0.0), "n3"),
    (NodeDraining("n3", 0.0), "n3"),
    (NodeDraining("n3", 0.0, 90.0, "preempted"), "n3 is draining, to be empty in.*: preempted$"),
    (PoolsSet(single_pool({"A100": 8}), 0.0), "default"),
    (TaskOrdered(1, TASK, slot("n3", 1), 0.0), "worker-5.*n3"),
    (TaskEnded(1, TaskExited(TASK, 0.0, 1), 0.0), "worker-5.*exit code 1"),
    (RuntimeSeen(1, 0.0), "runtime"),
    (ConvergenceSeen(1, 0.0, "loss 0.1: ..."), "^converged, loss 0.1"),
    (StopAsked(1, 0.0), "^stop"),
    (StopAsked(1, 0.0, force=True), "forced stop"),
    (RequeueAsked(1, "ann", 0.0), "requeued by ann"),
    (RunBroken(1, 0.0, "worker-0 ended\ntail", delay=4.0), "worker-0 ended; restarts in 4 s$"),
    (RunBroken(1, 0.0, "worker-0 ended\ntail"), "worker-0 ended$"),
    (GangStopping(1, "fail", 0.0), "failed"),
    (GangStopping(1, "finish", 0.0), "complete"),
    (GangStopping(1, "clear", 0.0), "few"),
    (GangStopping(1, "broken", 0.0), "died"),
    (Decided(1, "wait", "waiting.devices", "no room", 0.0), "waiting.devices.*no room"),
    (PolicySet("srtf", 0.0), "srtf"),
    (SweepSubmitted(SWEEP, 0.0), "sweep of 2 members submitted by ann"),
    (MemberSubmitted(2, 1, 0.0), "a member of sweep 1"),
    (RungReached(2, 1, 0, 0.25, 0.0), "reached rung 1 with 0.25"),
    (RungReached(2, 1, 0, None, 0.0), "reached rung 1 with no number"),
    (MemberPromoted(2, 1, 0, 0.0), "among the best of rung 1"),
    (SweepResized(1, 4, "ann", 0.0), "at most 4 members at once, set by ann"),
    (SweepStopped(1, "ann", 0.0), "sweep stopped by ann"),
    (SweepDependencyMet(1, 7, 0.0), "what it waited for has ended: 7"),
    (SweepSkipped(1, 7, 0.0, "job 7 (prep) failed"), r"skipped: job 7 \(prep\) failed"),
    (SweepEnded(1, 0.0), "all members are over"),
]


@pytest.mark.parametrize(("fact", "says"), FACTS, ids=lambda each: type(each).__name__)
def test_a_fact_in_words(fact: Fact, says: str) -> None:
    change = change_of(Journalled(7, fact, "j"))
    assert (change.seq, change.job) == (7, "j")
    assert re.search(says, change.text), change.text
    assert "\n" not in change.text
    assert "(" not in change.text.partition(" ")[0], "a sentence, not a repr"


def test_every_kind_of_fact_has_words() -> None:
    known = {type(fact) for fact, _ in FACTS}
    assert known == set(get_args(Fact))


def test_a_decision_is_named_by_its_kind() -> None:
    assert change_of(Journalled(1, Decided(1, "wait", "c", "t", 0.0))).kind == "wait"
    assert change_of(Journalled(1, Started(1, 1, 0.0))).kind == "Started"
