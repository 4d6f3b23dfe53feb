"""Facts of the journal in words."""

from muster.core.why.words import where
from muster.daemon.gang.exits import words
from muster.daemon.loop.job_summaries import asked
from muster.model import event as e
from muster.model import task as t
from muster.model.task import Fact
from muster.store.batch import Journalled
from muster.wire.records import ChangeRecord


def change_of(entry: Journalled) -> ChangeRecord:
    """A fact as the API tells it."""
    fact = entry.fact
    kind = fact.kind if isinstance(fact, t.Decided) else type(fact).__name__
    return ChangeRecord(entry.seq, fact.at, kind, entry.name, told(fact))


def told(fact: Fact) -> str:  # noqa: C901, PLR0911, PLR0912 (one line for each kind)
    """A fact in words."""
    match fact:
        case e.Submitted():
            return f"submitted by {fact.job.user} to pool {fact.job.pool}, asks {asked(fact.job)}"
        case e.StartBegun() | e.ResizeBegun() | e.MigrateBegun():
            verb = {e.StartBegun: "starting", e.ResizeBegun: "changing", e.MigrateBegun: "moving"}
            return (
                f"{verb[type(fact)]}, to {len(fact.placement.slots)} tasks on {where(fact.placement)}"
            )
        case e.Started():
            return "all its tasks run"
        case e.Resized() | e.Migrated():
            return f"goes on with its new tasks, generation {fact.generation}"
        case e.PreemptBegun():
            return "told to stop"
        case e.Preempted():
            return "has stopped, and waits again"
        case e.Checkpointed():
            return "checkpoint written"
        case e.TasksLost():
            return f"tasks lost for good; goes on with {len(fact.placement.slots)}"
        case e.Reshaped():
            spans = "+".join(f"{spec.gang}..{spec.most}" for spec in fact.roles)
            return f"now asks {spans}"
        case e.Ended():
            return fact.outcome.value
        case e.Cancelled():
            return "cancelled"
        case e.NodeAdded():
            return f"node {fact.node.name} added"
        case e.NodeLost():
            return f"node {fact.node} lost"
        case e.NodeReturned():
            return f"node {fact.node} takes tasks again"
        case e.NodeDraining():
            return f"node {fact.node} takes no new tasks"
        case e.PoolsSet():
            return f"pools: {', '.join(sorted(fact.pools.pools))}"
        case t.TaskOrdered():
            return f"{fact.task.name} ordered on {fact.slot.node}"
        case t.TaskEnded():
            return f"{fact.exited.task.name} ended with {words(fact.exited)}"
        case t.RuntimeSeen():
            return "uses the elastic runtime: it is resized live"
        case t.StopAsked():
            return "its user stops it"
        case t.GangStopping():
            return _STOPPING[fact.goal]
        case t.Decided():
            return f"{fact.code}: {fact.text}"
        case t.PolicySet():
            return f"policy {fact.policy}"


_STOPPING = {
    "fail": "failed: its tasks are stopped",
    "finish": "training complete, its processes are ending",
    "clear": "too few tasks left: the rest is stopped",
}
