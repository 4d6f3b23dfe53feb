"""What a task checks and asks for when it enters a formation."""

from collections.abc import Sequence
from typing import Any

from muster.runtime.data.fingerprint import Fingerprint
from muster.runtime.errors import BadTrainingError, BrokenGroupError
from muster.runtime.members.ballot import MemberStatus
from muster.runtime.members.crew import Crew
from muster.runtime.members.peers import ask


def check_layout(crew: Crew, rows: Sequence[MemberStatus]) -> None:
    """Refuse members with other parameters."""
    for task, row in zip(crew.tasks, rows, strict=True):
        if row.layout != rows[0].layout and row.changes == rows[0].changes:
            raise BadTrainingError(
                f"{task} trains another model than {crew.tasks[0]}: not the same script?"
            )


def check_data(crew: Crew, rows: Sequence[MemberStatus]) -> None:
    """Refuse a worker with another dataset; if others train already, they go on without it."""
    found = [Fingerprint(int(r.samples), int(r.contents), r.sketch) for r in rows[: crew.workers]]
    holders = [rank for rank, row in enumerate(rows[: crew.workers]) if row.holds]
    first = holders[0] if holders else 0
    for rank, other in enumerate(found):
        how = found[first].differs(other)
        if not how:
            continue
        text = f"{crew.tasks[rank]} has another dataset than {crew.tasks[first]}: {how}"
        if crew.rank in holders and rank not in holders:
            raise BrokenGroupError(text)
        raise BadTrainingError(f"{text}; every worker must read the same samples")


def ask_layout(crew: Crew, rank: int, token: str) -> dict[str, Any]:
    """Return what a member trains; see `TrainingState.layout`."""
    return dict(_ask(crew, rank, "layout", token))


def ask_feed(crew: Crew, rank: int, token: str) -> Any:
    """Return a holder's leases: nobody can commit a step before we take part."""
    return _ask(crew, rank, "feed", token)


def _ask(crew: Crew, rank: int, what: str, token: str) -> Any:
    member = crew.plan.members[rank]
    try:
        return ask(member.address, {"kind": what}, token, crew.plan.deadline)[what]
    except (OSError, ValueError) as problem:
        raise BrokenGroupError(f"{member.task} did not send its {what}: {problem}") from problem
