"""Idle devices are lent to a job that is believed not to need them. Speeds in work per s."""

from dataclasses import replace

from muster.model.job import Job
from muster.model.outlook import Outlook, Table
from muster.model.view import JobState, View
from muster.policy.base import Shares
from muster.policy.market.trials import TRIED
from muster.policy.muster import Muster
from tests import builders
from tests.unit.policy.deal import everything, told
from tests.unit.policy.test_muster import EIGHT, counts, each_device, job, on

NO_USE = Outlook(1e6, Table((1.0, 0.9, 0.9, 0.9, 0.9, 0.9)), spread=0.5, here=1.0)
"""What a wrong measurement with six workers leaves behind."""
GOOD = Outlook(1e6, Table((1.0, 2.0, 3.0, 4.0, 5.0, 6.0)), spread=0.5, here=2.0)


def held(workers: int, since: float = -1e6) -> JobState:
    """The job on this many devices since then."""
    asked = job("a", most=6, pause=1.0)
    return on(asked, *each_device("n0", workers), since=since)


def ask(
    state: JobState, outlook: Outlook, now: float = 0.0, memory: object = None, *more: Job
) -> Shares:
    """What the policy says, on eight devices."""
    seen: View = told(builders.view(EIGHT, [state, *more]), a=outlook, b=outlook)
    return Muster().allocate(seen, everything(seen), now, memory)


def test_a_job_that_is_believed_to_gain_nothing_is_lent_idle_devices() -> None:
    assert counts(ask(held(1), NO_USE)) == {"a": 2}


def test_a_trial_lasts_until_the_job_is_measured() -> None:
    first = ask(held(1), NO_USE)
    unmeasured = replace(NO_USE, here=None)
    later = ask(held(2, since=1.0), unmeasured, 2.0 + TRIED, first.memory)
    assert counts(later) == {"a": 2}
    assert ask(held(2, since=1.0), NO_USE, 20.0, first.memory).again == 2.0 + TRIED


def test_what_does_not_help_is_released_and_tried_again_ever_later() -> None:
    memory, now, waits = None, 0.0, []
    for _ in range(3):
        lent = ask(held(1), NO_USE, now, memory)
        assert counts(lent) == {"a": 2}
        judged = ask(held(2, since=now), NO_USE, now + 1.0 + TRIED, lent.memory)
        assert counts(judged) == {"a": 1}
        since, ended, memory = now + 40.0, now + 1.0 + TRIED, judged.memory
        now += 200.0
        while counts(early := ask(held(1, since=since), NO_USE, now, memory)) == {"a": 1}:
            memory, now = early.memory, early.again
        waits.append(now - ended)
    assert waits == [600.0, 1200.0, 2400.0]


def test_what_helps_is_kept_and_grows_on() -> None:
    lent = ask(held(1), NO_USE)
    assert counts(ask(held(2, since=1.0), GOOD, 2.0 + TRIED, lent.memory)) == {"a": 6}


def test_whoever_waits_comes_before_a_trial() -> None:
    lent = ask(held(1), NO_USE)
    other = job("b", gang=7, most=7)
    dealt = counts(ask(held(2, since=1.0), NO_USE, 10.0, lent.memory, other))
    assert dealt == {"a": 1, "b": 7}


def test_nothing_is_tried_where_the_truth_is_known_or_a_change_is_a_restart() -> None:
    assert counts(ask(held(1), replace(NO_USE, spread=0.0))) == {"a": 1}
    restarted = replace(held(1), job=replace(held(1).job, restarts=True))
    assert counts(ask(restarted, NO_USE)) == {"a": 1}


def test_a_job_about_to_end_is_left_alone() -> None:
    assert counts(ask(held(1), replace(NO_USE, left=60.0))) == {"a": 1}


def test_the_policy_asks_to_be_asked_when_a_job_can_be_measured() -> None:
    started = ask(held(1, since=0.0), replace(NO_USE, here=None), 2.0)
    assert started.again == 1.0 + TRIED
