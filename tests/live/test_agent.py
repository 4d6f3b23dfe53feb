"""A real agent and a pretended daemon, over real TLS: what each survives of the other."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster.executors.fleet.join_error import JoinError
from muster.model.job import Role
from muster.model.task import TaskId
from muster.store.store import Store, open_store
from muster.wire.agents.agent_messages import (
    AgentAlive,
    AgentHello,
    AgentRefused,
    AgentReport,
    AttachTasks,
    DaemonAlive,
    Departing,
    Join,
    LogPart,
    RenewCertificate,
    Retire,
    RunTask,
    SendSignal,
)
from muster.wire.agents.join_token import JoinToken
from tests.pretended_daemon import AgentProcess, PretendedDaemon, data_of, order, until

TASK = TaskId(7, 1, Role.WORKER, 0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Keeps one authority for all tests: a new store takes a while."""
    opened = open_store(str(tmp_path_factory.mktemp("store") / "muster.db"))
    yield opened
    opened.close()


@pytest.fixture
def daemon(store: Store) -> Iterator[PretendedDaemon]:
    made = PretendedDaemon(store)
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
    agent.start_joined("--label", "rack=r1", "--advertise", "127.0.0.2")
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
    agent.start_joined()
    call = daemon.accept()
    call.welcome()
    call.say(order(tmp_path, "seq 10000; echo last words; exit 1"))
    call.report("exited")
    parts = [data_of(each) for each in call.heard if isinstance(each, LogPart)]
    assert b"".join(parts).endswith(b"last words\n")


def test_an_agent_that_is_killed_finds_its_tasks_and_reports_each_end_once(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.start_joined()
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
    agent.start_joined()
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
    agent.start_joined()
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
    agent.start_joined()
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
    agent.start_joined()
    daemon.accept().welcome()
    second = AgentProcess(daemon, agent.folder)
    second.output = tmp_path / "second.out"
    second.start()
    assert second.wait() == 2
    assert f"an agent already runs in {agent.folder} (pid {agent.pid})" in second.words()


def test_a_task_with_a_lease_ends_with_it(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.start_joined()
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
    agent.start_joined()
    call = daemon.accept()
    call.welcome()
    call.say(order(tmp_path, "exec sleep 3", lease=1.5))
    assert call.report("exited").report["code"] == 0


def test_an_engine_takes_the_node_back(daemon: PretendedDaemon, agent: AgentProcess) -> None:
    agent.start_joined("--grace", "60")
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
    agent.start_joined()
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


def test_an_agent_with_eight_tasks_is_small(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.start_joined()
    call = daemon.accept()
    call.welcome()
    for index in range(8):
        call.say(order(tmp_path, "seq 20000; exec sleep 1000", index))
    for index in range(8):
        call.report("started", replace(TASK, index=index))
    for _ in range(8):  # it has sent some of their logs, as well
        call.store(call.hear(LogPart))
    assert memory_of(agent.pid) < 40 * 10**6


def memory_of(pid: int) -> int:
    """Bytes that a process has in memory, those it shares with others included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the process is gone")


LARGE = (
    *("pydantic", "numpy", "scipy", "sqlalchemy", "structlog", "rich", "typer", "fastapi"),
    *("httpx", "yaml", "cryptography", "msgspec"),
)


def test_an_agent_imports_no_large_library() -> None:
    code = (
        "import sys, muster.agent.agent, muster.agent.command, muster.agent.trust.join, platformdirs\n"
        f"print([name for name in {LARGE} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_token_is_used_once_and_the_daemon_says_so(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    token = daemon.token("n0")
    agent.start("--join", token)
    daemon.admit()
    daemon.accept().welcome()
    second = AgentProcess(daemon, tmp_path / "second")
    second.start("--join", token)
    call = daemon.accept()
    join = call.hear(Join)
    with pytest.raises(JoinError) as caught:
        daemon.identities.join(join.token, join.node, join.request, "127.0.0.1")
    call.say(AgentRefused(str(caught.value)))
    assert second.wait() == 2
    assert "the daemon refuses this agent: the join token was used on" in second.words()
    assert "by n0; create another one" in second.words()


def test_nothing_is_sent_to_another_daemon_than_the_tokens(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    token = replace(JoinToken.parse(daemon.token("n0")), fingerprint="0" * 64)
    agent.start("--join", str(token))
    heard = daemon.first_words()
    assert agent.wait() == 2
    assert heard is None  # a look at its certificate, and no message
    assert "is not the daemon of this token: its authority has another fingerprint" in agent.words()


def test_an_agent_of_another_version_ends_with_the_daemons_words(
    daemon: PretendedDaemon, agent: AgentProcess
) -> None:
    agent.start_joined()
    call = daemon.accept()
    call.hear(AgentHello)
    call.say(AgentRefused("the agent speaks protocol version 1, the daemon 2"))
    assert agent.wait() == 2
    assert "muster: the daemon refuses this agent: the agent speaks protocol" in agent.words()


def test_an_agent_that_is_refused_for_now_tries_again(
    daemon: PretendedDaemon, agent: AgentProcess
) -> None:
    agent.start_joined()
    call = daemon.accept()
    call.hear(AgentHello)
    call.say(AgentRefused("node n0 has another agent", final=False))
    call.close()
    daemon.accept().welcome()
    assert "refused for now: node n0 has another agent" in agent.words()


def test_a_certificate_is_renewed_when_the_daemon_asks(
    daemon: PretendedDaemon, agent: AgentProcess
) -> None:
    agent.start_joined()
    call = daemon.accept()
    call.welcome()
    before = (agent.folder / "identity.pem").read_text()
    call.say(DaemonAlive(1, renew=True))
    request = call.hear(RenewCertificate)
    call.say(daemon.identities.renew("n0", request.request))
    until(lambda: (agent.folder / "identity.pem").read_text() != before)
    call.close()
    daemon.accept().welcome()  # with the new one: the key fits


def test_another_daemon_address_is_tried(daemon: PretendedDaemon, agent: AgentProcess) -> None:
    token = JoinToken.parse(daemon.token("n0"))
    nobody = "127.0.0.1:1"
    agent.start("--join", str(replace(token, addresses=(nobody, daemon.address))))
    daemon.admit()
    daemon.accept().welcome()
    assert f"cannot connect to {nobody}" in agent.words()


def test_a_daemon_that_says_nonsense_is_left_and_called_again(
    daemon: PretendedDaemon, agent: AgentProcess
) -> None:
    agent.start_joined()
    call = daemon.accept()
    call.welcome()
    call.say(RunTask(1, "../../etc/passwd", {}))
    assert call.next_but_beats() is None
    assert "not an order: '../../etc/passwd' is not the id of a task" in agent.words()
    daemon.accept().welcome()


def test_an_interrupted_agent_leaves_its_tasks(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.start_joined()
    call = daemon.accept()
    call.welcome()
    call.say(order(tmp_path, "exec sleep 1000"))
    pid = call.report("started").report["pid"]
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.wait() == 128 + signal.SIGTERM, "who keeps it tells this from a retirement"
    os.kill(pid, 0)
    assert "the agent ends (stopped); its tasks keep running" in agent.words()


def test_an_agent_that_is_retired_ends_well(daemon: PretendedDaemon, agent: AgentProcess) -> None:
    agent.start_joined()
    call = daemon.accept()
    call.welcome()
    call.say(Retire(1, "given back"))
    assert agent.wait() == 0
    assert "the agent ends (retired: given back)" in agent.words()


def test_an_agent_without_daemon_and_tasks_gives_its_node_back(
    daemon: PretendedDaemon, agent: AgentProcess
) -> None:
    agent.start_joined("--away", "0.2")
    call = daemon.accept()
    call.welcome()
    call.hear(AgentAlive)
    call.close()
    assert agent.wait() == 0
    assert "the agent ends (no daemon for 0 s, and no task)" in agent.words()


def test_an_agent_with_something_to_tell_waits_for_a_daemon(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.start_joined("--away", "0.2")
    call = daemon.accept()
    call.welcome()
    # Several times as long as the agent would wait without it, and looks for a daemon.
    call.say(order(tmp_path, "sleep 3"))
    call.report("started")
    call.close()
    ended = agent.folder / "tasks" / str(TASK) / "ended.json"
    until(ended.exists)
    call = daemon.accept()
    call.welcome()
    assert call.report("exited").report["code"] == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_for_systemd_is_valid_and_runs_a_joined_agent(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.start("--join", daemon.token("n0"), "--systemd", "--label", "rack=r 1")
    daemon.admit()
    assert agent.wait() == 0
    unit = tmp_path / "muster-agent.service"
    unit.write_text(agent.words())
    assert "mja1" not in agent.words()  # the token is used, and secret
    command = ["systemd-analyze", "verify", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (
        0,
        [],
    )
    start = next(line for line in agent.words().splitlines() if line.startswith("ExecStart="))
    assert "'rack=r 1'" in start
    agent.start()
    daemon.accept().welcome()


def test_the_hello_lists_what_lives(
    daemon: PretendedDaemon, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.start_joined()
    call = daemon.accept()
    assert call.welcome().tasks == ()
    call.say(order(tmp_path, "exec sleep 1000"))
    call.report("started")
    call.close()
    hello = daemon.accept().hear(AgentHello)
    assert hello.tasks == (str(TASK),)
