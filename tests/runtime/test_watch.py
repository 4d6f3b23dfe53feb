"""Members that watch each other while nobody waits for them: the end of one reaches all."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from muster.runtime.comm.watch import Watch
from muster.runtime.errors import BrokenGroupError

from .comm_members import HOST, TOKEN, StoreServer

PATIENCE = 30.0
MEMBER = """
import sys
from muster.runtime.comm.store import StoreClient
connection = StoreClient(sys.argv[1], sys.argv[2], sys.argv[3], 60.0).attend()
print("here", flush=True)
connection.recv(1)
"""


class Member:
    """One that notes why its group is broken."""

    def __init__(self, server: StoreServer, name: str = "1-a", deadline: float = 600.0) -> None:
        self.why, self.told = "", threading.Event()
        self.watch = Watch(server.client(name, deadline), self._note)

    def _note(self, why: str) -> None:
        self.why = why
        self.told.set()


def test_a_member_whose_process_is_killed_is_noticed_by_all_others() -> None:
    server = StoreServer()
    members = [Member(server) for _ in range(2)]
    with subprocess.Popen(
        [sys.executable, "-c", MEMBER, server.address, TOKEN, "1-a"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"here\n"
        os.kill(process.pid, signal.SIGKILL)
        assert all(member.told.wait(PATIENCE) for member in members)
    assert {member.why for member in members} == {"a member is gone"}
    server.close()


def test_who_leaves_is_not_called_and_ends_the_meeting_for_the_others() -> None:
    server = StoreServer()
    first, second = Member(server), Member(server)
    first.watch.close()
    assert second.told.wait(PATIENCE)
    assert not first.told.is_set()
    server.close()


def test_formations_do_not_hear_of_each_other() -> None:
    server = StoreServer()
    early, late, later = Member(server, "1-a"), Member(server, "2-b"), Member(server, "2-b")
    early.watch.close()
    server.stores.forget(1)
    late.watch.close()
    assert later.told.wait(PATIENCE)
    assert not late.told.is_set()
    server.close()


def test_who_waits_past_the_deadline_is_told() -> None:
    server = StoreServer()
    member = Member(server, deadline=0.2)
    member.watch.wait_from_now()
    assert member.told.wait(PATIENCE)
    assert member.why == "no answer for 0.2 s"
    server.close()


def test_nobody_to_meet_is_a_broken_group() -> None:
    server = StoreServer()
    server.close()
    with pytest.raises(BrokenGroupError, match=HOST):
        Member(server, deadline=1.0)
