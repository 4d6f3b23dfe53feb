"""A job's budget of failures and losses."""

from muster.daemon.gang.state import GangState
from muster.model.job import LOSSES, Program


def is_over_budget(gang: GangState, program: Program) -> bool:
    """Whether the job may not be restarted any more."""
    return gang.failures > program.failures or _lost_too_often(gang, program)


def why_over(gang: GangState, program: Program, cause: str) -> str:
    """Return why a job fails now: one with losses in a row would otherwise have gone on."""
    if not _lost_too_often(gang, program):
        return cause
    count = gang.setbacks.losses
    row = f"{count} losses in a row" if count > 1 else "a loss"
    return f"gave up after {row}: {cause}"


def _lost_too_often(gang: GangState, program: Program) -> bool:
    budget = LOSSES if program.losses is None else program.losses
    return gang.setbacks.losses > budget
