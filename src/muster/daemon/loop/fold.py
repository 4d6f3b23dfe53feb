"""Folds posted entries into the next state, facts to journal, and commands.

Facts are folded; gangs react to them and to the reports of their tasks, and what they note is folded in
turn. The state it begins with is never changed: a turn whose facts cannot be journalled is dropped, and
its entries are retried.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import get_args

import structlog

from muster.core.state.event_errors import EventError
from muster.core.state.lifecycle import LifecycleError
from muster.daemon.gang.commands import Command
from muster.daemon.gang.events import GangEvent, GangFact
from muster.daemon.gang.react import react
from muster.daemon.gang.state import GangState, Sight
from muster.daemon.loop.dependents import ENDS, dependents
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.state import State
from muster.model.event import NodeLost
from muster.model.task import Fact, TaskFact
from muster.model.view import JobState

log = structlog.get_logger()

_REFUSED = (EventError, LifecycleError)
_GANG_FACTS = get_args(GangFact)
_ALONE = (*_GANG_FACTS, *ENDS)


@dataclass(frozen=True, slots=True)
class Closed:
    """A job that has ended, in its last state."""

    job: JobState
    gang: GangState


@dataclass(slots=True)
class Turn:
    """The result of folding entries, to be adopted once its facts are in the journal."""

    state: State
    sights: dict[int, Sight]
    accepted: list[Entry] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    commands: list[tuple[int, Command]] = field(default_factory=list)
    """Each with its job."""
    closed: dict[int, Closed] = field(default_factory=dict)


def fold(state: State, sights: Mapping[int, Sight], entries: Sequence[Entry], now: float) -> Turn:
    """Fold entries into a state; those that conflict with it are refused."""
    turn = Turn(state, dict(sights))
    for plain, group in groupby(entries, _is_plain):
        together = list(group)
        if plain and _fold_together(turn, together):
            continue
        for entry in together:
            _fold_one(turn, entry, now)
    return turn


def _is_plain(entry: Entry) -> bool:
    """Whether no gang reacts to it and no job ends, as with submissions."""
    return (
        not entry.events
        and entry.current is None
        and not any(isinstance(fact, _ALONE) for fact in entry.facts)
    )


def _fold_together(turn: Turn, entries: Sequence[Entry]) -> bool:
    """Fold all at once if none conflicts: one by one, each would copy the list of all jobs."""
    facts = [fact for entry in entries for fact in entry.facts]
    try:
        turn.state = turn.state.after(facts)
    except _REFUSED:
        return False
    turn.accepted += entries
    turn.facts += facts
    return True


def _fold_one(turn: Turn, entry: Entry, now: float) -> None:
    before = turn.state
    try:
        if entry.current is not None:
            entry.facts = entry.current(before)
        turn.state = before.after(entry.facts)
    except _REFUSED as problem:
        level = log.warning if entry.done is None else log.info
        level("refused facts", problem=str(problem), facts=_kinds(entry.facts))
        entry.fail(problem)
        return
    turn.accepted.append(entry)
    turn.facts += entry.facts
    _close(turn, before, entry.facts)
    for job, event in (*_reacting(turn.state, entry.facts), *entry.events):
        _react(turn, job, event, now)


def _reacting(state: State, facts: Sequence[Fact]) -> list[tuple[int, GangEvent]]:
    """Return the facts that gangs react to, each with its job."""
    found: list[tuple[int, GangEvent]] = []
    for fact in facts:
        if isinstance(fact, NodeLost):
            for job, gang in state.gangs.items():
                if any(task.slot.node == fact.node for task in gang.tasks):
                    found.append((job, fact))
        elif isinstance(fact, _GANG_FACTS):
            found.append((fact.job, fact))
    return found


def _react(turn: Turn, number: int, event: GangEvent, now: float) -> None:
    """Let one gang react; an error in one job must not stop the others."""
    gang, job = turn.state.gangs.get(number), turn.state.view.jobs.get(number)
    if gang is None or job is None:
        return
    try:
        reaction = react(gang, turn.sights.get(number, Sight()), job, event, now)
    except Exception:
        log.exception("gang failed to react", job=number, to=type(event).__name__)
        return
    before, facts = turn.state, reaction.facts
    try:
        turn.state = before.after(facts)
    except _REFUSED as problem:
        # What happened to the processes is true all the same.
        log.error("refused facts of a gang", problem=str(problem), facts=_kinds(facts))
        facts = tuple(fact for fact in facts if isinstance(fact, TaskFact))
        turn.state = before.after(facts)
    turn.facts += facts
    turn.sights[number] = reaction.sight
    turn.commands += [(number, command) for command in reaction.commands]
    _close(turn, before, facts)


def _close(turn: Turn, before: State, facts: Sequence[Fact]) -> None:
    """Keep the jobs that these facts end, as they were just before, and tell those after them."""
    for place, fact in enumerate(facts):
        if isinstance(fact, ENDS):
            turn.sights.pop(fact.job, None)
            last = before.after(facts[:place])
            job = last.view.jobs.get(fact.job)
            if job is not None:
                turn.closed[fact.job] = Closed(job, last.gangs.get(fact.job, GangState()))
    passed_on, told = turn.state, dependents(before, turn.state, facts)
    if told:
        turn.state = passed_on.after(told)
        turn.facts += told
        _close(turn, passed_on, told)  # those skipped have jobs after them, too


def _kinds(facts: Sequence[Fact]) -> list[str]:
    return [type(fact).__name__ for fact in facts]
