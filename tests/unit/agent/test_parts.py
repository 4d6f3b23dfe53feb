"""The agent's parts by themselves: outbox, table, fence, folder, orders."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.agent.options import AgentError
from muster.agent.talk.outbox import Outbox
from muster.agent.talk.told_once import ToldOnce
from muster.agent.tasks.fence import Fence
from muster.agent.tasks.orders import translated
from muster.agent.tasks.task_table import TaskTable
from muster.agent.trust.identity import AgentFolder
from muster.executors.local.shim import last_heard, uptime
from muster.model.job import Role
from muster.model.task import TaskExited, TaskId, TaskStarted

TASK = TaskId(7, 1, Role.WORKER, 0)


@given(st.lists(st.one_of(st.just("add"), st.just("cut"), st.integers(0, 20)), max_size=40))
def test_each_report_reaches_a_daemon_that_stores_them_in_order(steps: list[str | int]) -> None:
    """An integer stores that many of the reports that have arrived on this connection."""
    outbox, made, stored, arrived = Outbox(), 0, 0, [0]
    for step in steps:
        if step == "add":
            made += 1
            outbox.add(TaskStarted(TASK, uptime(), made))
        elif step == "cut":
            outbox.connected(stored)
            arrived = [stored]
        for message in outbox.unsent():
            assert message.seq == arrived[-1] + 1, "none is left out"
            assert message.report["pid"] == message.seq
            arrived.append(message.seq)
        if isinstance(step, int):
            stored = max(stored, min(stored + step, arrived[-1]))
            outbox.stored(stored)
    assert len(outbox) == made - stored


def test_a_report_is_as_old_as_what_it_reports() -> None:
    outbox = Outbox()
    outbox.add(TaskExited(TASK, uptime() - 5.0, 0))
    (message,) = outbox.unsent()
    assert 5.0 <= message.age < 60.0


def test_a_log_is_in_use_while_an_attempt_may_write_it() -> None:
    table = TaskTable()
    table.add(TASK, "log")
    table.add(replace(TASK, attempt=1), "log")
    table.ended(TASK)
    assert table.living() == [replace(TASK, attempt=1)]
    table.remove(TASK)
    assert table.uses("log")
    table.remove(replace(TASK, attempt=1))
    assert not table.uses("log")


def test_a_lease_counts_from_what_the_daemon_has_answered(tmp_path: Path) -> None:
    fence = Fence(tmp_path / "heard")
    assert fence.lapsed(3600.0), "no daemon was ever heard"
    sent = uptime()
    fence.answered(sent)
    assert not fence.lapsed(3600.0)
    fence.answered(sent - 100.0)
    assert last_heard(str(tmp_path / "heard")) == pytest.approx(sent, abs=0.001)
    fence.close()
    again = Fence(tmp_path / "heard")
    assert not again.lapsed(3600.0), "another agent knows it, too"
    assert not again.lapsed(0.0), "no lease never lapses"
    again.close()


def test_the_folder_is_for_its_user_alone(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path / "one" / "two")
    folder.lock()
    folder.epoch = 7
    folder.daemons = ("10.0.0.1:7078", "[::1]:7078")
    folder.keep_identity("certificate\n", "authority\n", "key\n")
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in folder.path.iterdir()} == {0o600}
    again = AgentFolder(folder.path)
    assert (again.epoch, again.daemons) == (7, ("10.0.0.1:7078", "[::1]:7078"))
    assert again.joined
    with pytest.raises(AgentError, match=r"an agent already runs in .* give this one another --node"):
        again.lock()


def test_a_damaged_identity_says_what_to_do(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path)
    folder.keep_identity("no certificate", "no authority", "no key")
    with pytest.raises(AgentError, match="join again with a new token"):
        folder.context()


def test_devices_are_called_as_the_engine_calls_them() -> None:
    given = {"CUDA_VISIBLE_DEVICES": "0,1", "NVIDIA_VISIBLE_DEVICES": "1", "RANK": "0"}
    assert translated(given, ("4", "GPU-5")) == {
        "CUDA_VISIBLE_DEVICES": "4,GPU-5",
        "NVIDIA_VISIBLE_DEVICES": "GPU-5",
        "RANK": "0",
    }
    assert translated({"CUDA_VISIBLE_DEVICES": ""}, ("4",)) == {"CUDA_VISIBLE_DEVICES": ""}
    assert translated({"CUDA_VISIBLE_DEVICES": "7"}, ("4",)) == {"CUDA_VISIBLE_DEVICES": "7"}


def test_an_agent_that_tries_for_hours_says_so_once_in_a_while() -> None:
    now = [1.0]
    told = ToldOnce(lambda: now[0])
    assert told.is_news("refused for now: node n0 has another agent, heard 1 s ago")
    now[0] = 5.0
    assert not told.is_news("refused for now: node n0 has another agent, heard 4 s ago")
    assert told.is_news("cannot connect to d:7")
    assert not told.is_news("refused for now: node n0 has another agent, heard 6 s ago")
    now[0] = 700.0
    assert told.is_news("cannot connect to d:7")
    told.forget()
    assert told.is_news("cannot connect to d:7")
