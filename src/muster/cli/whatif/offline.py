"""The same question about a saved snapshot, without a daemon."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from muster.cli.whatif.answer import Told
from muster.cli.whatif.request import ClusterSeen
from muster.core.quotas.demand import capacity, demands
from muster.core.quotas.pools import entitle
from muster.daemon.service.governing.pool_change import PoolRules
from muster.daemon.service.reading.records import pool_records
from muster.daemon.whatif.report import report_of
from muster.files.errors import InputError
from muster.files.job.job_file import load_job
from muster.files.snapshot import CycleSnapshot
from muster.foresight.past import Past
from muster.foresight.play import Present
from muster.foresight.whatif.ask import WhatIfQuestion, what_if
from muster.foresight.whatif.changes import (
    Alteration,
    ChangeError,
    NodesAdded,
    NodesDrained,
    PolicyChange,
    PoolChange,
    PriorityChange,
    SubmissionChange,
)
from muster.model.pool import EVERY_TYPE, Pool, Quota
from muster.model.view import View
from muster.policy.registry import POLICIES
from muster.wire.api.whatif_records import WhatIfReport


def cluster_seen(snapshot: CycleSnapshot) -> ClusterSeen:
    """Return the pools and device types of a snapshot."""
    view = snapshot.view
    available = capacity(view.cluster)
    entitled = entitle(view.pools, available, demands(view, available))
    found = pool_records(view, entitled, frozenset(), snapshot.policy)
    return ClusterSeen(found, view.cluster.device_types())


def what_if_offline(
    snapshot: CycleSnapshot, changes: dict[str, Any], worlds: int, seed: int, told: Told
) -> WhatIfReport:
    """Play a snapshot with and without the changes: nothing is known of the past before it."""
    present = Present(snapshot.view, snapshot.now, POLICIES[snapshot.policy], snapshot.memory)
    question = WhatIfQuestion(tuple(_alterations(snapshot.view, changes)), worlds, seed)
    try:
        return report_of(what_if(present, Past(), question, told))
    except ChangeError as error:
        raise InputError(str(error)) from None


def _alterations(view: View, changes: dict[str, Any]) -> list[Alteration]:
    found: list[Alteration] = []
    if changes["policy"] is not None:
        found.append(PolicyChange(changes["policy"]))
    found += [PoolChange(_pool(view, name, each)) for name, each in changes["pools"].items()]
    found += [NodesAdded(tuple(e["names"]), e["like"], e.get("at")) for e in changes["add"]]
    found += [NodesDrained(tuple(e["names"]), e.get("at"), e.get("by")) for e in changes["drain"]]
    found += [PriorityChange(_number(view, job), n) for job, n in changes["priorities"].items()]
    found += [SubmissionChange(load_job(Path(e["job"])), e.get("at")) for e in changes["submit"]]
    return found


def _pool(view: View, name: str, given: dict[str, Any]) -> Pool:
    known = view.pools.pools.get(name) or Pool(name)
    quotas = {kind: Quota(**amounts) for kind, amounts in given["quotas"].items()}
    before = {} if EVERY_TYPE in quotas else known.quotas
    rules = PoolRules(
        devices_per_user=given.get("devices_per_user"),
        lifted=tuple(given["lifted"]),
        policy=given.get("policy"),
        aim=given.get("aim"),
    )
    pool = rules.applied(replace(known, parent=given.get("parent") or known.parent))
    return replace(pool, quotas={**before, **quotas})


def _number(view: View, which: str) -> int:
    """Return the number of a job by its number, name or full name."""
    if which.isdigit():
        return int(which)
    found = [n for n, state in view.jobs.items() if which in (state.job.name, state.job.full_name)]
    if len(found) != 1:
        raise InputError.at("--priority", f"{which!r} names {len(found)} jobs; give a number")
    return found[0]
