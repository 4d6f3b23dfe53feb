"""A job's progress across a restart of the daemon."""

from muster.daemon.learn.live import LiveJob, note_of_end, note_of_state, state_of
from muster.daemon.learn.notes import PROGRESS
from muster.daemon.learn.window import Window
from muster.perf.learnt.held import Held
from muster.store.batch import Note
from muster.wire.tasks.messages import Changed, Saved, StepDone
from tests.builders import job


def busy() -> LiveJob:
    live = LiveJob(job("j", 2, number=7), held=Held("A100", (1, 1), 64), since=5.0, spent=3.0)
    live.track.note_change(Changed("worker-0", 1, 0, ("worker-0", "worker-1"), 0.0, "start"))
    live.track.note_change(Changed("worker-0", 2, 5, ("worker-0", "worker-1"), 0.5, "plan"))
    live.track.note_step(StepDone("worker-0", 2, 9, 1, 32, 0.25, 0.1, 0.1, 0.0, 0.0), 6.0)
    live.track.note_saved(Saved("worker-0", 8, "/c", 0.1))
    live.window = Window(2)
    return live


def test_it_goes_on_where_it_was() -> None:
    live = busy()
    note = note_of_state(live, 6.0)
    assert (note.kind, note.key, note.at) == (PROGRESS, "7", 6.0)
    state = state_of(note)
    assert state is not None
    again = LiveJob.restored(live.job, state)
    assert (again.held, again.since, again.spent) == (live.held, 5.0, 3.0)
    before, after = live.track.progress(100.0), again.track.progress(100.0)
    assert after == before
    assert (after.step, after.saved, after.resizes, after.pause) == (9, 8, 1, 0.5)
    assert again.window is None, "a measurement in progress is not kept"


def test_a_step_heard_before_the_restart_does_not_count_again() -> None:
    live = busy()
    state = state_of(note_of_state(live, 6.0))
    assert state is not None
    again = LiveJob.restored(live.job, state)
    same = StepDone("worker-0", 2, 9, 1, 32, 0.25, 0.1, 0.1, 0.0, 0.0)
    assert not again.track.note_step(same, 7.0)
    assert again.track.samples == live.track.samples


def test_a_job_without_devices_has_none_afterwards() -> None:
    state = state_of(note_of_state(LiveJob(job("j")), 0.0))
    assert state is not None
    assert LiveJob.restored(job("j"), state).held is None


def test_of_a_job_that_has_ended_nothing_is_left() -> None:
    assert state_of(note_of_end(7, 9.0)) is None
    assert state_of(Note(PROGRESS, "7", 0.0, b'{"number": "seven"}')) is None
