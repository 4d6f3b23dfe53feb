"""Interactive jobs: a terminal on devices that people attach to, leave and come back to."""

import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.live.daemons import LONG, MUSTER, Daemon, environment, until
from tests.live.person import Person

SERVER = """#!{python}
import http.server, sys
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print("arguments", *sys.argv[1:], flush=True)
print(f"    http://127.0.0.1:{{server.server_port}}/lab?token=...", flush=True)
server.serve_forever()
"""


def around(daemon: Daemon) -> dict[str, str]:
    return {**environment(daemon.home), "SHELL": "/bin/sh", "PS1": "$ "}


def test_a_session_survives_who_leaves_it_and_ends_with_its_shell(daemon: Daemon) -> None:
    with Person([*MUSTER, "run", "-i", "--name", "shell"], around(daemon)) as person:
        person.see("attached")
        person.type("echo $((6*7)) on $MUSTER_TASK\r")
        person.see("42 on worker-0")
        person.type("\x10\x11")
        person.see("the job keeps running")
        assert person.code() == 0
    record = daemon.record("shell")
    assert (record.status, record.interactive, record.devices) == ("running", True, 1)
    assert "interactive" in daemon.muster("ps").stdout
    with Person([*MUSTER, "attach", "shell"], around(daemon), 31, 91) as person:
        person.see("42 on worker-0")
        person.type("stty size\r")
        person.see("31 91")
        with Person([*MUSTER, "attach", "shell"], around(daemon)) as another:
            person.see("attached elsewhere")
            another.type("exit 6\r")
            assert another.code() == 6
    assert daemon.client.handle("shell").wait().exit_code == 6
    assert "42 on worker-0" in daemon.muster("logs", "shell").stdout


def test_a_session_ends_with_what_is_piped_into_it(daemon: Daemon) -> None:
    """Also where the last line has no end, and came while a command was running."""
    for shell in ("sh", "bash"):
        words = [*MUSTER, "run", "-i", "--name", shell, "--idle", "0", "--", shell]
        done = subprocess.run(
            words,
            input=b"sleep 0.2\necho $((6*7)) on $MUSTER_TASK; exit_code() { return 3; }\nexit_code",
            env=around(daemon),
            capture_output=True,
            timeout=LONG,
            check=False,
        )
        assert b"42 on worker-0" in done.stdout
        assert done.returncode == 3, done.stderr
        assert daemon.record(shell).exit_code == 3


def test_an_idle_session_is_warned_and_ended(daemon: Daemon) -> None:
    handle = daemon.submit("sh", name="idle", interactive="1s")
    assert handle.wait().status == "succeeded"
    said = "".join(daemon.client.logs("idle"))
    assert "idle: the session ends in 0 s unless you type something" in said
    assert "ended after 1 s without activity" in said


@pytest.mark.slow
def test_computing_is_not_idle(daemon: Daemon) -> None:
    line = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; echo computed"
    handle = daemon.sh(line, name="busy", interactive="1s")
    assert handle.wait().status == "succeeded"
    assert "computed" in "".join(daemon.client.logs("busy"))


def test_a_session_is_stopped_as_a_closed_terminal_stops_it(daemon: Daemon) -> None:
    """A shell ignores SIGTERM, and would be killed only after its grace."""
    line = "trap '' TERM; trap 'echo hung up; exit 1' HUP; echo ready; while :; do sleep 0.05; done"
    handle = daemon.sh(line, name="s", interactive="0s", grace="120s")
    until(lambda: "ready" in "".join(daemon.client.logs("s")), "it runs")
    handle.stop()
    assert handle.wait().status == "cancelled"
    assert "hung up" in "".join(daemon.client.logs("s"))


@pytest.fixture
def jupyter(tmp_path: Path) -> Path:
    """A program that speaks as Jupyter does; its folder."""
    program = tmp_path / "bin/jupyter"
    program.parent.mkdir()
    program.write_text(SERVER.format(python=sys.executable), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program.parent


@pytest.mark.slow
def test_notebooks_are_reached_at_a_port_of_this_machine(daemon: Daemon, jupyter: Path) -> None:
    known = environment(daemon.home)
    found = {**known, "PATH": f"{jupyter}:{known['PATH']}"}
    with Person([*MUSTER, "run", "--jupyter", "--idle", "10m", "--name", "nb"], found) as person:
        shown = person.see("/lab?token=")
        person.see("Ctrl-C leaves it running")
        address = next(word for word in shown.split() if word.startswith("http://127.0.0.1"))
        assert len(address.partition("token=")[2]) >= 20, "not the dots that Jupyter logs"
        assert urllib.request.urlopen(address.partition("/lab")[0]).status == 200
        person.type("\x03")
        assert person.code() == 0
    assert "shutdown_no_activity_timeout=600" in daemon.muster("logs", "nb").stdout


@pytest.mark.slow
def test_without_jupyter_the_job_says_what_to_install(daemon: Daemon) -> None:
    done = daemon.muster("run", "--jupyter", "--name", "nb", "--env", "PATH=/usr/bin:/bin")
    assert done.returncode == 1
    assert "no jupyter in the environment of this job; install jupyterlab there" in done.stderr
