"""Facts of the journal as text."""

from muster.core.why.words import clock, plan_words, where
from muster.daemon.gang.exits import headline, words
from muster.daemon.loop.job_summaries import asked, asked_of
from muster.daemon.sweeps.fact_text import sweep_fact_text
from muster.model import event as e
from muster.model import task as t
from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.task import Fact
from muster.store.batch import Journalled
from muster.wire.api.records import ChangeRecord, workers_asked

_VERBS = {e.StartBegun: "starting", e.ResizeBegun: "resizing to", e.MigrateBegun: "migrating to"}
_STOPPING = {
    "fail": "failed: stopping its tasks",
    "finish": "training complete: its processes are ending",
    "clear": "too few tasks left: stopping the rest",
    "broken": "a task died: stopping the others",
}


def change_of(entry: Journalled) -> ChangeRecord:
    """Convert a fact to the API's record."""
    fact = entry.fact
    kind = fact.kind if isinstance(fact, t.Decided) else type(fact).__name__
    return ChangeRecord(entry.seq, fact.at, kind, entry.name, text_of(fact), t.job_of(fact))


def text_of(fact: Fact) -> str:  # noqa: C901, PLR0911, PLR0912 (one line for each kind)
    """Describe a fact."""
    match fact:
        case e.Submitted():
            job = fact.job
            return f"submitted by {job.user} to pool {job.pool}, asks for {workers_asked(asked(job))}"
        case e.StartBegun() | e.ResizeBegun() | e.MigrateBegun():
            batch = f", batch {fact.batch}" if fact.batch else ""
            return f"{_VERBS[type(fact)]} {_tasks(fact.placement)} on {where(fact.placement)}{batch}"
        case e.Started():
            return "running"
        case e.Resized() | e.Migrated():
            return f"running with its new tasks, generation {fact.generation}"
        case e.PreemptBegun():
            return "stopping"
        case e.Preempted():
            return "stopped, back in the queue"
        case e.Checkpointed():
            return "checkpoint written"
        case e.TasksLost():
            return f"lost tasks; continues with {_tasks(fact.placement)}"
        case e.Reshaped():
            return f"now asks for {workers_asked(asked_of(fact.roles))}" + _because(fact.why)
        case e.Ended():
            return f"{fact.outcome.value}{f': {headline(fact.error)}' if fact.error else ''}"
        case e.Requeued():
            return "gave its devices back, waits to restart"
        case e.JobHeld():
            return fact.why or f"held by {fact.by}"
        case e.JobReleased():
            return f"released by {fact.by}"
        case e.Reprioritised():
            return f"priority {fact.priority}, set by {fact.by}"
        case e.EndingChanged():
            return f"ends by {fact.until or 'its own epochs or steps'}, set by {fact.by}"
        case e.Replanned():
            return f"plan: {plan_words(fact.plan)}"
        case e.Cancelled():
            return "cancelled"
        case e.DependencyMet():
            return f"job {fact.parent} ended: it no longer waits for that"
        case e.Skipped():
            return f"skipped: {fact.why}"
        case e.NodeAdded():
            return f"node {fact.node.name} added" + _by_whom(fact)
        case e.NodeLeft():
            return f"node {fact.node} left" + _because(fact.why)
        case e.NodeLost():
            return f"node {fact.node} lost" + _because(fact.why)
        case e.NodeReturned():
            return f"node {fact.node} is back"
        case e.NodeDraining():
            by = "" if fact.until is None else f", to be empty in {clock(fact.until - fact.at)}"
            return f"node {fact.node} is draining{by}" + _because(fact.why)
        case e.PoolsSet():
            return f"pools: {', '.join(sorted(fact.pools.pools))}"
        case t.TaskOrdered():
            return f"{_named(fact.task)} ordered on {fact.slot.node}"
        case t.TaskEnded():
            end = "ended" if fact.exited.begun or not fact.exited.error else "could not start"
            return f"{_named(fact.exited.task)} {end}: {words(fact.exited)}"
        case t.RuntimeSeen():
            return "uses Muster's runtime: can be resized live"
        case t.ConvergenceSeen():
            return f"converged, {fact.text}"
        case t.StopAsked() if fact.why:
            return fact.why
        case t.StopAsked():
            return f"{'forced ' if fact.force else ''}stop requested by its user"
        case t.RequeueAsked():
            return f"requeued by {fact.by}"
        case t.RunBroken():
            then = f"; restarts in {fact.delay:g} s" if fact.delay else ""
            return f"{headline(fact.cause)}{then}"
        case t.GangStopping():
            return _STOPPING[fact.goal]
        case t.Decided():
            return f"{fact.code}: {fact.text}"
        case t.PolicySet():
            return f"policy {fact.policy}"
        case _:
            return sweep_fact_text(fact)


def _because(why: str) -> str:
    return f": {why}" if why else ""


def _by_whom(fact: e.NodeAdded) -> str:
    """Return the engine and the devices of a node whose agent called."""
    offer = fact.node.offer
    if offer is None:
        return ""
    devices = f"{offer.devices} {offer.device_type}" if offer.devices else "no devices"
    return f" by {offer.engine or 'hand'}: {devices}"


def _named(task: t.TaskId) -> str:
    """The task as in lists, with the attempt if it is not the first."""
    return f"{task.name}, attempt {task.attempt}" if task.attempt else task.name


def _tasks(placement: Placement) -> str:
    """`2 workers`, `4 workers and 1 server`."""
    counts = {role: placement.count(role) for role in Role}
    return " and ".join(
        f"{count} {role.value}{'s' if count > 1 else ''}" for role, count in counts.items() if count
    )
