"""A token is of one run of one job: it survives restarts and rotation, and nothing else."""

import hashlib
import hmac
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from muster.daemon.gang.state import GangState
from muster.daemon.tasks.job_secrets import JobSecrets
from muster.model.job import Role
from muster.model.task import TaskId, TaskOrdered
from muster.model.view import JobState
from tests.builders import job, placement, running

PLACED = placement(("n0", 0b1))


def live(number: int = 7, run: int = 1, restarts: int = 0) -> tuple[JobState, GangState]:
    state = running(job("train", 1, number=number), PLACED)
    task = TaskOrdered(number, TaskId(number, run, Role.WORKER, 0), PLACED.slots[0], 0.0)
    return replace(state, run=run), GangState(tasks=(task,), restarts=restarts)


runs = st.builds(live, st.integers(1, 3), st.integers(1, 3), st.integers(0, 2))


@given(runs, runs)
def test_two_runs_never_share_a_token(
    one: tuple[JobState, GangState], two: tuple[JobState, GangState]
) -> None:
    secrets = JobSecrets("secret")
    same = (one[0].number, one[0].run, one[1].restarts) == (two[0].number, two[0].run, two[1].restarts)
    assert (secrets.token(*one) == secrets.token(*two)) == same


def test_a_live_resize_keeps_the_token() -> None:
    state, gang = live()
    resized = replace(state, generation=state.generation + 1)
    secrets = JobSecrets("secret")
    assert secrets.token(resized, gang) == secrets.token(state, gang)


def test_a_restarted_daemon_knows_all_tokens() -> None:
    secrets = JobSecrets.new()
    again = JobSecrets.load(secrets.dump())
    assert again.token(*live()) == secrets.token(*live())
    assert again.site == secrets.site


def test_after_a_rotation_live_runs_keep_their_tokens_and_later_ones_get_new_ones() -> None:
    secrets = JobSecrets("secret")
    state, gang = live()
    before, later = secrets.token(state, gang), JobSecrets("secret").token(*live(run=2))
    site = secrets.site
    secrets.rotate([(state, gang)])
    for known in (secrets, JobSecrets.load(secrets.dump())):
        assert known.token(state, gang) == before
        assert known.token(*live(run=2)) != later
        assert known.token(*live(8)) != JobSecrets("secret").token(*live(8))
        assert known.site == site
    secrets.rotate([(state, gang)])
    assert secrets.token(state, gang) == before


def test_once_a_run_has_ended_nothing_is_kept_of_the_old_secret() -> None:
    secrets = JobSecrets("secret")
    before = secrets.token(*live())
    secrets.rotate([live()])
    secrets.rotate([live(8)])
    assert before not in secrets.dump()
    assert secrets.token(*live()) != before


def test_live_jobs_of_an_older_version_keep_the_tokens_that_they_have() -> None:
    old = hmac.new(b"cafe", b"7/train", hashlib.sha256).hexdigest()
    secrets = JobSecrets.load("cafe", [live()])
    assert secrets.token(*live()) == old
    assert JobSecrets.load(secrets.dump()).token(*live()) == old
    assert secrets.token(*live(run=2)) != old
