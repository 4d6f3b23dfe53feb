"""A node that does not see the daemon's files: jobs bring theirs along, or are told."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import muster
from muster.app.daemon_folder import read_status
from tests.live.daemons import LONG, MUSTER, Daemon, environment, processes, until


def hidden(*folders: Path) -> str:
    """A shell's words that hide folders from what it then runs, in a mount namespace of its own."""
    return "".join(f"mount -t tmpfs none {folder} && " for folder in folders)


def can_hide() -> bool:
    words = ("unshare", "--mount", "true")
    return os.geteuid() == 0 and subprocess.run(words, capture_output=True).returncode == 0


@pytest.fixture
def blind(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose only node sees neither its folder nor that of the code."""
    if not can_hide():
        pytest.skip("hiding folders from a process needs root")
    (tmp_path / "code").mkdir()
    daemon = Daemon(
        tmp_path / "daemon",
        "--engine",
        "machines",
        "--agent-host",
        "127.0.0.1",
        "--agent-port",
        "0",
        devices=0,
    )
    node, agent = tmp_path / "node", None
    try:
        daemon.start()
        status = read_status(daemon.data)
        assert status is not None and status.listening is not None and status.listening.join
        command = [*MUSTER, *status.listening.join.split()[1:], "--folder", str(node)]
        command += ["--node", "far", "--devices", "2", "--virtual"]
        script = hidden(daemon.data, tmp_path / "code") + 'exec "$@"'
        with (tmp_path / "agent.log").open("wb") as log:
            agent = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", script, "sh", *command],
                env=environment(tmp_path / "home"),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(lambda: [node.state for node in daemon.client.nodes()] == ["up"], "the node is up")
        yield daemon
    finally:
        if agent is not None:
            agent.kill()
            agent.wait(LONG)
        for pid in processes(str(node)):
            os.kill(pid, 9)
        daemon.end()


def test_a_shipped_folder_reaches_a_node_that_sees_none_of_it(blind: Daemon, tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "lib.py").write_text("WORD = 'shipped'\n")
    (code / "train.py").write_text(
        "import lib, os, pathlib\n"
        "pathlib.Path(os.environ['MUSTER_CHECKPOINT']).mkdir(parents=True)\n"
        "print(lib.WORD, os.getcwd())\n"
    )
    # It does not know yet whether its node sees the daemon's files, or has just learnt it.
    until(lambda: told(blind), "the node has looked for the daemon's files")
    client = blind.client
    record = {
        "name": "far",
        "command": [sys.executable, "train.py"],
        "ship": str(code),
        "folder": str(code),
    }
    job = client.submit(record)
    assert job.wait(LONG).status == "succeeded", blind.muster("logs", "far").stdout
    (line,) = list(job.logs())
    assert line.endswith(f"shipped {tmp_path}/node/jobs/1-far/work")
    again = client.submit({**record, "name": "again"})  # its pack is on the node
    assert again.wait(LONG).status == "succeeded"
    assert len(list((tmp_path / "node/packs").glob("*.tgz"))) == 1
    assert "seen by that node alone" in " ".join(client.forecast({**record, "name": "c"}).caveats)


@pytest.mark.slow
def test_functions_and_their_results_travel_to_a_node_that_sees_no_files(
    blind: Daemon, tmp_path: Path
) -> None:
    until(lambda: told(blind), "the node has looked for the daemon's files")

    def times(number: int) -> int:
        if number == 1:
            raise ValueError("no ones")
        if number == 2:
            os._exit(7)
        return number * 3

    calls = tmp_path / "code"
    with muster.Executor(blind.client, folder=calls, ship=True, at_most=2) as executor:
        found = list(executor.map(times, range(4), return_exceptions=True))
        assert (found[0], found[3]) == (0, 9)
        assert isinstance(found[1], ValueError)
        assert "worker-0 ended with exit code 7" in str(found[2])
        last = executor.submit(times, 5)
        assert last.result(LONG) == 15
    assert muster.result(last.job.number, blind.client) == 15


def told(daemon: Daemon) -> bool:
    caveats = daemon.client.forecast({"name": "x", "command": ["true"], "folder": None}).caveats
    return "far see none of this machine's files" in " ".join(caveats)
