"""Fences off writers that were given up: a node that is cut off may still compute.

Whoever begins to write to a place *claims* it with the next number, and lists the checkpoints that it
found. Names of checkpoints have the number of their claim, so nobody overwrites another's, and only
those of the highest claim, and those that it lists, count: what an earlier writer adds later is never
read. No lock is needed, so it holds on NFS and in object stores, too; all that is needed is that a file
that is written is seen by whoever lists the place afterwards.
"""

import json
import os
import re
import socket
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from muster.runtime.errors import BadCheckpointError
from muster.runtime.state.owner import CheckpointOwner, WriterClaim
from muster.runtime.state.places import Place

_CLAIM = re.compile(r"\.claim-(\d{9})\.json")
_NAME = re.compile(r"step-(\d{12})(?:\.c(\d{1,9}))?\.pt")

KEPT = 4
"""Claims that stay readable: a fenced writer shall learn who has taken over."""


@dataclass(frozen=True, slots=True)
class SavedName:
    """The name of a checkpoint, read."""

    step: int
    claim: int
    """0: written without one, or by the first."""
    name: str


def saved_name(step: int, claim: int) -> str:
    """Return the name of a checkpoint; the first claim's have none of it."""
    return f"step-{step:012d}.c{claim}.pt" if claim > 1 else f"step-{step:012d}.pt"


def read_name(name: str) -> SavedName | None:
    """Return what a name says; None if it is not that of a checkpoint."""
    found = _NAME.fullmatch(name)
    return SavedName(int(found[1]), int(found[2] or 0), name) if found else None


class FencedError(BadCheckpointError):
    """Somebody else writes here now."""


@dataclass(frozen=True, slots=True)
class WriterTerm:
    """A set of members of a run that spans machines; a run on one machine has a single term."""

    number: int = 0
    """The formation."""
    members: str = ""


@dataclass(frozen=True, slots=True)
class WriterTerms:
    """How a writer knows its term."""

    current: Callable[[], WriterTerm] = WriterTerm
    heard: Callable[[], bool] = lambda: True
    """Waits for the coordinator to hear of the current term; False if it does not."""
    spanning: Callable[[], WriterTerm] = WriterTerm
    """The current one of a run that has spanned machines, also if it is on one by now."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The highest claim of a place."""

    number: int = 0
    run: str = ""
    attempt: int = 0
    term: WriterTerm = WriterTerm()
    who: str = ""
    accepted: tuple[str, ...] = ()


def claimed(place: Place, names: Iterable[str]) -> Claimed:
    """Return the highest claim among a place's names."""
    found = [(int(match[1]), name) for name in names if (match := _CLAIM.fullmatch(name))]
    if not found:
        return Claimed()
    number, name = max(found)
    try:
        card: dict[str, Any] = dict(json.loads(place.read(name)))
        owner = CheckpointOwner.read(card["owner"])
        return Claimed(
            number,
            str(card["run"]),
            int(card["attempt"]),
            WriterTerm(int(card["term"]), str(card["members"])),
            f"{owner}, process {card['pid']} on {card['host']}",
            tuple(map(str, card["accepted"])),
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise BadCheckpointError(f"{place.address(name)} is damaged: {problem}") from problem


def counting(names: Iterable[str], top: Claimed) -> list[SavedName]:
    """Return the checkpoints that count, newest first: of equal steps that of the later claim."""
    saved = [found for name in names if (found := read_name(name)) is not None]
    if top.number:
        accepted = set(top.accepted)
        own = top.number if top.number > 1 else 0
        saved = [each for each in saved if each.claim == own or each.name in accepted]
    return sorted(saved, key=lambda each: (each.step, each.claim), reverse=True)


class WriterFence:
    """One writer's claim on a place; taken when it first writes, and again in a new term."""

    def __init__(self, place: Place, claim: WriterClaim, terms: WriterTerms) -> None:
        self._place, self._claim, self._terms = place, claim, terms
        self.top = Claimed()

    def take(self, *, begins: bool = False) -> None:
        """Claim the place, or find that this run has; `FencedError` if another has since.

        `begins`: the run begins, so terms that its tasks had before do not count.
        """
        while True:
            names = self._place.names()
            top = claimed(self._place, names)
            term = self._term(top)
            if self._is_ours(top, term):
                self.top = top
                return
            self._refuse(top, term, begins)
            accepted = tuple(each.name for each in counting(names, top))
            name = f".claim-{top.number + 1:09d}.json"
            if self._place.create(name, self._card(term, accepted)):
                self._tidy(names, top.number + 1)

    def check(self) -> None:
        """Raise `FencedError` if another has claimed the place since `take`."""
        top = claimed(self._place, self._place.names())
        if top.number > self.top.number:
            raise self._fenced(top)

    def _term(self, top: Claimed) -> WriterTerm:
        """Return this writer's term; a run that shrank to one machine counts on."""
        of_run = (top.run, top.attempt) == (self._claim.run, self._claim.attempt)
        term = self._terms.current()
        return self._terms.spanning() if of_run and top.term.number and not term.number else term

    def _is_ours(self, top: Claimed, term: WriterTerm) -> bool:
        mine = (self._claim.run, self._claim.attempt, term)
        return top.number > 0 and (top.run, top.attempt, top.term) == mine

    def _refuse(self, top: Claimed, term: WriterTerm, begins: bool) -> None:
        """Raise `FencedError` if this writer may have been given up."""
        mine = self._claim
        if top.run != mine.run:
            if 0 < self.top.number < top.number:  # it had the place, and lost it
                raise self._fenced(top)
        elif top.attempt > mine.attempt:
            raise self._fenced(top)
        elif top.attempt == mine.attempt and not begins:
            # Of two halves of a run that lost each other, the one that claims first continues.
            if top.number and top.term.number >= term.number:
                raise self._fenced(top)
            if not self._terms.heard():
                raise FencedError(
                    "the members have changed, and the coordinator has not heard of it yet: others may "
                    "continue without this task"
                )

    def _fenced(self, top: Claimed) -> FencedError:
        return FencedError(
            f"a later run writes to {self._place.address('')} now ({top.who}): this one was given up, "
            "and what it computes does not count"
        )

    def _card(self, term: WriterTerm, accepted: tuple[str, ...]) -> bytes:
        mine = self._claim
        card = {
            "owner": asdict(mine.owner),
            "run": mine.run,
            "attempt": mine.attempt,
            "term": term.number,
            "members": term.members,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "accepted": list(accepted),
        }
        return json.dumps(card).encode()

    def _tidy(self, names: Iterable[str], number: int) -> None:
        for name in names:
            found = _CLAIM.fullmatch(name)
            if found and int(found[1]) <= number - KEPT:
                self._place.remove(name)
