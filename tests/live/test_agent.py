"""A real agent and a pretended daemon, over real TLS: what each survives of the other."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster.model.job import Role
from muster.model.task import TaskId
from muster.wire.agent_messages import (
    AgentHello,
    AgentReport,
    AttachTasks,
    Departing,
    LogPart,
    Retire,
    SendSignal,
)
from tests.pretended_daemon import AgentProcess, PretendedDaemon, data_of, order, until

TASK = TaskId(7, 1, Role.WORKER, 0)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[PretendedDaemon]:
    made = PretendedDaemon(tmp_path)
    yield made
    made.close()


@pytest.fixture
def agent(daemon: PretendedDaemon, tmp_path: Path) -> Iterator[AgentProcess]:
    made = AgentProcess(daemon, tmp_path / "agent")
    yield made
    made.close()


def test_a_task_is_run_and_reported_with_its_log(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.join("--label", "rack=r1", "--advertise", "127.0.0.2")
    call = daemon.accept()
    hello = call.welcome()
    assert hello.node == "n0"
    assert hello.offer["devices"] == 2
    assert hello.offer["labels"] == {"rack": "r1"}
    assert (hello.offer["address"], hello.offer["interface"]) == ("127.0.0.2", "lo")
    call.say(order(tmp_path, "echo hello; exit 3"))
    started = call.report("started")
    assert started.report["pid"]
    part = call.hear(LogPart)
    assert (part.log, part.offset, data_of(part)) == ("7/1/worker-0.log", 0, b"hello\n")
    call.store(part)
    exited = call.report("exited")
    assert (exited.task, exited.report["code"]) == (str(TASK), 3)
    until((agent.folder / "tasks" / str(TASK) / "settled").exists)


def test_the_last_words_come_before_the_end(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.join()
    call = daemon.accept()
    call.welcome()
    call.say(order(tmp_path, "seq 10000; echo last words; exit 1"))
    call.report("exited")
    parts = [data_of(each) for each in call.heard if isinstance(each, LogPart)]
    assert b"".join(parts).endswith(b"last words\n")


def test_an_agent_that_is_killed_finds_its_tasks_and_reports_each_end_once(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.join()
    call = daemon.accept()
    call.welcome()
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    call.say(order(tmp_path, f"cat {fifo}"), order(tmp_path, "exec sleep 1000", 1))
    for index in range(2):
        call.report("started", replace(TASK, index=index))
    agent.kill()
    fifo.write_text("")  # it ends while no agent lives
    until((agent.folder / "tasks" / str(TASK) / "ended.json").exists)

    agent.start()
    call = daemon.accept()
    call.welcome()
    assert call.report("exited").task == str(TASK)
    call.say(SendSignal(1, "7/1/worker-1", signal.SIGKILL))
    assert call.report("exited").report["signal"] == signal.SIGKILL
    until(lambda: len(list(agent.folder.glob("tasks/*/*/*/settled"))) == 2)

    agent.kill()
    agent.start()
    call = daemon.accept()
    assert call.welcome().tasks == ()
    call.say(Retire(1, "the test is over"))
    assert call.next_but_beats() is None
    assert agent.wait() == 0


def test_tasks_survive_the_daemon_and_reports_wait_for_the_next(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.join()
    call = daemon.accept()
    first = call.welcome()
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    call.say(order(tmp_path, f"cat {fifo}; exit 5"))
    call.report("started")
    call.close()
    fifo.write_text("")
    call = daemon.accept()
    again = call.welcome()
    assert again.run == first.run
    assert call.report("exited").report["code"] == 5


def test_a_report_is_sent_again_until_it_is_stored(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.join()
    call = daemon.accept()
    call.welcome()
    call.say(order(tmp_path, "true"))
    heard = call.hear(AgentReport, lambda each: each.what == "exited")
    call.close()
    call = daemon.accept()
    call.welcome(reported=heard.seq - 1)
    again = call.hear(AgentReport)
    assert (again.seq, again.report) == (heard.seq, heard.report)
    assert again.age >= heard.age


def test_an_order_of_a_daemon_that_was_replaced_is_refused(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.join()
    call = daemon.accept()
    call.welcome(epoch=5)
    call.say(order(tmp_path, "touch ran"))  # of epoch 1
    call.say(replace(order(tmp_path, "true", 1), epoch=5))
    assert call.report("exited").task == "7/1/worker-1"
    assert not (tmp_path / "ran").exists()
    assert "refused RunTask of a daemon that was replaced (epoch 1 < 5)" in agent.words()
    agent.kill()

    agent.start()
    call = daemon.accept()
    hello = call.welcome(epoch=4)
    assert hello.epoch == 5
    assert call.next_but_beats() is None  # it has hung up
    daemon.accept().welcome(epoch=5)


def test_a_second_agent_of_one_folder_says_so(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.join()
    daemon.accept().welcome()
    second = AgentProcess(daemon, agent.folder)
    second.output = tmp_path / "second.out"
    second.start()
    assert second.wait() == 2
    assert f"an agent already runs in {agent.folder} (pid {agent.pid})" in second.words()


def test_a_task_with_a_lease_ends_with_it(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.join()
    call = daemon.accept()
    call.welcome()
    call.say(order(tmp_path, "exec sleep 1000", lease=1.0), order(tmp_path, "exec sleep 1000", 1))
    for index in range(2):
        call.report("started", replace(TASK, index=index))
    agent.kill()  # the shim keeps the lease
    ended = agent.folder / "tasks" / str(TASK) / "ended.json"
    until(ended.exists)
    agent.start()
    call = daemon.accept()
    assert call.welcome().tasks == ("7/1/worker-1",)
    exited = call.report("exited")
    assert exited.report["signal"] == signal.SIGKILL
    assert "end of its lease: no word from the daemon for 1 s" in exited.report["error"]


def test_a_lease_is_kept_while_the_daemon_answers(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.join()
    call = daemon.accept()
    call.welcome()
    call.say(order(tmp_path, "exec sleep 3", lease=1.5))
    assert call.report("exited").report["code"] == 0


def test_an_engine_takes_the_node_back(daemon: PretendedDaemon, agent: AgentProcess) -> None:
    agent.join("--grace", "60")
    call = daemon.accept()
    call.welcome()
    os.kill(agent.pid, signal.SIGTERM)
    told = call.hear(Departing)
    assert 50 < told.within <= 60
    assert "its engine takes it back" in told.why
    call.close()
    call = daemon.accept()
    call.welcome()
    assert call.hear(Departing).within <= 60  # told again: the daemon may be another one


def test_a_task_that_was_never_ordered_is_reported_so(
    daemon: PretendedDaemon, agent: AgentProcess
) -> None:
    agent.join()
    call = daemon.accept()
    call.welcome()
    call.say(AttachTasks(1, (str(TASK),)))
    exited = call.report("exited")
    assert (exited.report["begun"], exited.report["error"]) == (False, "it was never started")


def test_an_agent_without_an_identity_says_how_to_join(
    daemon: PretendedDaemon, agent: AgentProcess
) -> None:
    agent.start("--daemon", daemon.address)
    assert agent.wait() == 2
    assert "has no identity; join first: muster agent --join TOKEN" in agent.words()


def test_the_hello_lists_what_lives(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.join()
    call = daemon.accept()
    assert call.welcome().tasks == ()
    call.say(order(tmp_path, "exec sleep 1000"))
    call.report("started")
    call.close()
    hello = daemon.accept().hear(AgentHello)
    assert hello.tasks == (str(TASK),)
