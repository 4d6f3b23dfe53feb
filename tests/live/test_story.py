"""A job's story, told by a real daemon while it lives, when it is over, and after a restart."""

from tests.live.conftest import LEND, Make
from tests.live.daemons import Daemon


def test_a_waiting_job_is_told_what_would_start_it_and_it_does(daemon: Daemon) -> None:
    daemon.submit("sleep", "600", name="story-holds", devices=3)
    daemon.await_status("story-holds", "running")
    asks = daemon.submit("sleep", "600", name="story-asks", devices=4)
    story = daemon.client.story(asks.number)
    assert story.status == "waiting" and "story-holds" in story.rank
    (fewer,) = [each for each in story.advice if each.field == "workers"]
    assert (fewer.value, fewer.workers, fewer.at_once) == ("1", 1, True)
    followed = daemon.muster(*fewer.command.split()[1:])
    assert followed.returncode == 0, followed.stderr
    daemon.await_status("story-asks", "running")
    assert [line.what for line in daemon.client.story(asks.number).lines][-1] == "started"


def test_the_story_of_a_preempted_job_outlives_the_job_and_the_daemon(make: Make) -> None:
    daemon = make(devices=2)
    daemon.start()
    daemon.client.set_pool(LEND, quotas={"cpu": {"reservation": 0}})
    guest = daemon.submit("sleep", "600", name="guest", devices=2, pool=LEND)
    daemon.await_status("guest", "running")
    owner = daemon.submit("sleep", "1", name="owner", devices=2, priority=1)
    daemon.await_status("owner", "succeeded")
    daemon.await_status("guest", "running")
    daemon.client.stop(guest.number)
    daemon.await_status("guest", "cancelled")
    daemon.kill()
    daemon.start()
    story = daemon.client.story("guest")
    (stopped,) = [line for line in story.lines if line.what == "preempted"]
    assert (stopped.served, stopped.given) == (owner.number, 2) and stopped.cost is not None
    shown = daemon.muster("why", str(guest.number))
    assert shown.returncode == 0, shown.stderr
    assert len(shown.stdout.splitlines()) <= 14
    assert "2 devices for owner" in shown.stdout and "cancelled" in shown.stdout
