"""The question: the same worlds played as everything is, and as changes would make it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from muster.core.state.evolve import evolve
from muster.foresight.draws import WorldDraws
from muster.foresight.effort import WORLDS
from muster.foresight.past import Past
from muster.foresight.play import Present
from muster.foresight.whatif.answer import WhatIfAnswer, summed_up
from muster.foresight.whatif.changes import Alteration, Altered, altered
from muster.foresight.whatif.sides import play_side
from muster.model.event import Submitted
from muster.model.view import View

Progress = Callable[[int, int], None]
"""Called with the worlds played so far, and of how many."""


@dataclass(frozen=True, slots=True)
class WhatIfQuestion:
    """What would become of the live jobs with these changes."""

    changes: tuple[Alteration, ...]
    worlds: int = WORLDS
    seed: int = 0


def what_if(
    present: Present, past: Past, asked: WhatIfQuestion, tell: Progress = lambda done, of: None
) -> WhatIfAnswer:
    """Play every world on both sides with the same draws; ChangeError if a change cannot be made."""
    changed = altered(present, asked.changes)
    view = _with_submissions(present.view, changed)
    draws = WorldDraws(view, present.now, past, asked.worlds, asked.seed)
    before, pairs = Altered(present), []
    for world in range(asked.worlds):
        pairs.append((play_side(before, draws, world), play_side(changed, draws, world)))
        tell(world + 1, asked.worlds)
    new = {each.job.number: each.job for each in changed.submissions}
    return summed_up(present.view, present.now, pairs, new, draws.basis)


def _with_submissions(view: View, changed: Altered) -> View:
    """Return the view with the jobs that the change submits, for their lengths to be drawn, too."""
    new = [Submitted(each.job, each.at or 0.0) for each in changed.submissions]
    if not new:
        return view
    known = {each.job.number: each.outlook for each in changed.submissions}
    outlooks = {number: each for number, each in known.items() if each is not None}
    return replace(evolve(view, new), outlooks={**view.outlooks, **outlooks})
