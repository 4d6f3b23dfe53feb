"""Ways into a running job: commands beside its tasks, terminals, ports and files."""

import http.server
import os
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from muster.client import ClientError, Handle
from muster.wire.api.records import TaskRecord
from tests.live.conftest import LEND
from tests.live.daemons import MUSTER, Daemon, environment, until
from tests.live.person import Person

FULL_SCREEN = Path(__file__).with_name("scripts") / "full_screen.py"


@pytest.fixture
def job(daemon: Daemon) -> Handle:
    """A job of two workers, which run."""
    found = daemon.sh("echo begun; exec sleep 600", name="visited", devices=2, env={"COLOUR": "blue"})
    until(lambda: all(t.status == "running" for t in tasks) if (tasks := _tasks(daemon)) else False)
    return found


def _tasks(daemon: Daemon) -> tuple[TaskRecord, ...]:
    return daemon.detail("visited").tasks


def test_a_command_has_the_tasks_environment_folder_and_rank(daemon: Daemon, job: Handle) -> None:
    line = "echo $COLOUR $RANK $MUSTER_TASK; pwd; cat; echo trouble >&2; exit 7"
    done = daemon.client.exec(job.number, ["sh", "-c", line], rank=1, given=b"given\n")
    folder = daemon.work("visited")
    assert done.output.decode().split("\n") == ["blue 1 worker-1", str(folder), "given", ""]
    assert (done.errors, done.code) == (b"trouble\n", 7)


def test_a_large_stream_comes_back_whole(daemon: Daemon, job: Handle) -> None:
    data = os.urandom(3_000_000)
    done = daemon.client.exec(job.number, ["cat"], given=data)
    assert (done.code, done.output == data) == (0, True)


def test_the_shell_of_a_pipe_reads_its_script_and_a_missing_command_is_named(
    daemon: Daemon, job: Handle
) -> None:
    shell = daemon.client.exec(job.number, given=b"echo from $MUSTER_JOB\nexit 4\n")
    assert (shell.output, shell.code) == (b"from visited\n", 4)
    missing = daemon.client.exec(job.number, ["no-such-program"])
    assert missing.code == 127
    assert b"no such command: no-such-program" in missing.errors


def test_signals_go_to_the_command_and_its_exit_code_comes_back(daemon: Daemon, job: Handle) -> None:
    line = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    visitor = subprocess.Popen(
        [*MUSTER, "exec", str(job.number), "--", "sh", "-c", line],
        env=environment(daemon.home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert visitor.stdout is not None
    assert visitor.stdout.readline() == b"ready\n"
    visitor.send_signal(signal.SIGINT)
    assert visitor.stdout.read() == b"caught\n"
    assert visitor.wait() == 9
    visitor.stdout.close()


def test_a_full_screen_program_follows_the_window_and_every_key(daemon: Daemon, job: Handle) -> None:
    command = [*MUSTER, "exec", str(job.number), "--", sys.executable, str(FULL_SCREEN)]
    with Person(command, environment(daemon.home), 20, 70) as person:
        person.see("window 20x70")
        person.type("x")
        assert person.see("key x").splitlines()[19] == "key x"
        person.resize(30, 100)
        person.see("window 30x100")
        person.type("\x03")
        person.see("key interrupt")
        person.type("q")
        assert person.code() == 3


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("vim") is None, reason="needs vim")
def test_an_editor_works_in_a_shell_beside_the_task(daemon: Daemon, job: Handle) -> None:
    with Person([*MUSTER, "exec", str(job.number)], environment(daemon.home)) as person:
        person.type("PS1='at $MUSTER_TASK> '; clear\r")
        person.see("at worker-0>")
        person.type("TERM=vt100 vim -u NONE -N note.txt\r")
        person.see("~")
        person.type("iwritten in vim\x1b:wq\r")
        until(lambda: (daemon.work("visited") / "note.txt").exists(), "it is saved")
        person.see("at worker-0>")
        person.type("exit 5\r")
        assert person.code() == 5
    assert (daemon.work("visited") / "note.txt").read_text(encoding="utf-8") == "written in vim\n"


def test_a_command_ends_with_its_task(daemon: Daemon, job: Handle) -> None:
    visitor = subprocess.Popen(
        [*MUSTER, "exec", str(job.number), "--", "sh", "-c", "echo ready; exec sleep 600"],
        env=environment(daemon.home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert visitor.stdout is not None
    assert visitor.stdout.readline() == b"ready\n"
    job.stop(force=True)
    assert visitor.wait() != 0
    visitor.stdout.close()
    with pytest.raises(ClientError, match=r"has ended \(cancelled\); what it printed: muster logs"):
        daemon.client.exec(job.number, ["true"])


def test_files_and_folders_are_copied_both_ways_and_after_the_end(
    daemon: Daemon, job: Handle, tmp_path: Path
) -> None:
    folder = daemon.work("visited")
    (folder / "results/deep").mkdir(parents=True)
    (folder / "results/deep/weights").write_bytes(data := os.urandom(2_000_000))
    (folder / "results/last").symlink_to("deep/weights")
    (folder / "results/secret").symlink_to("/etc/passwd")
    missed = daemon.client.copy_from(job.number, "results", tmp_path / "kept")
    assert missed == ["kept/secret: skipped: a link that leads out of the folder"]
    assert (tmp_path / "kept/last").read_bytes() == data
    assert daemon.client.copy_to(job.number, tmp_path / "kept", "back") == []
    assert (folder / "back/deep/weights").read_bytes() == data
    done = daemon.muster("cp", FULL_SCREEN, f"{job.number}:data/")
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "data" / FULL_SCREEN.name).read_bytes() == FULL_SCREEN.read_bytes()
    job.stop(force=True)
    job.wait()
    done = daemon.muster("cp", f"{job.number}:back/deep/weights", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "weights").read_bytes() == data


def test_a_copy_does_not_leave_the_jobs_folder(daemon: Daemon, job: Handle, tmp_path: Path) -> None:
    way_out = daemon.work("visited") / "way-out"
    if not way_out.is_symlink():
        way_out.symlink_to("/etc")
    for path in ("../../../etc/passwd", "/etc/passwd", "way-out/passwd"):
        with pytest.raises(ClientError, match="outside of the job's folder"):
            daemon.client.copy_from(job.number, path, tmp_path)
        with pytest.raises(ClientError, match="outside of the job's folder"):
            daemon.client.copy_to(job.number, FULL_SCREEN, path)
    assert list(tmp_path.iterdir()) == []


def _files(daemon: Daemon, number: int, path: str, what: str = "", token: str = "") -> httpx.Response:
    """What a browser gets."""
    return httpx.get(
        f"{daemon.url}/v1/jobs/{number}/files{what}",
        params={"path": path},
        headers={"Authorization": f"Bearer {token or daemon.token}"},
        timeout=60,
    )


def test_files_are_listed_and_read_by_plain_requests_and_after_the_end(
    daemon: Daemon, job: Handle
) -> None:
    folder = daemon.work("visited")
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models/last é.bin").write_bytes(data := os.urandom(2_000_000))
    listed = _files(daemon, job.number, "models").json()
    assert [(each["name"], each["kind"], each["size"]) for each in listed["entries"]] == [
        ("last é.bin", "file", len(data))
    ]
    job.stop(force=True)
    job.wait()
    read = _files(daemon, job.number, "models/last é.bin", "/content")
    assert read.content == data
    assert read.headers["Content-Disposition"] == "attachment; filename*=UTF-8''last%20%C3%A9.bin"
    assert read.headers["X-Content-Type-Options"] == "nosniff"
    assert _files(daemon, job.number, "models", "/content").status_code == 422
    assert _files(daemon, job.number, "models/none", "/content").status_code == 404
    assert any(each["name"] == "models" for each in _files(daemon, job.number, "").json()["entries"])


def test_plain_requests_do_not_leave_the_jobs_folder(daemon: Daemon, job: Handle) -> None:
    (trap := daemon.work("visited") / "trap").mkdir(exist_ok=True)
    for name, target in (("folder", "/etc"), ("file", "/etc/passwd")):
        (trap / name).unlink(missing_ok=True)
        (trap / name).symlink_to(target)
    os.mkfifo(trap / "pipe")
    for path in ("../../../../etc/passwd", "/etc/passwd", "trap/folder/passwd", "trap/file"):
        refused = _files(daemon, job.number, path, "/content")
        assert refused.status_code == 403 and "outside of the job's folder" in refused.text, path
    assert _files(daemon, job.number, "trap/folder").status_code == 403
    assert _files(daemon, job.number, "..").status_code == 403
    assert _files(daemon, job.number, "trap/pipe", "/content").status_code == 422
    kinds = {
        each["name"]: each["kind"] for each in _files(daemon, job.number, "trap").json()["entries"]
    }
    assert kinds == {"folder": "other", "file": "other", "pipe": "other"}


def test_other_users_files_are_hidden(daemon: Daemon, job: Handle) -> None:
    token = daemon.client.create_token("cyd", "cyd").secret
    assert token is not None
    try:
        for what in ("", "/content"):
            assert _files(daemon, job.number, "a", what, token).status_code == 404
    finally:
        daemon.client.revoke_token("cyd")


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[int]:
    """A server of the node, as TensorBoard would be; its port."""
    (tmp_path / "page").write_bytes(bytes(range(256)) * 4096)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_several_connections_go_through_a_forwarded_port(
    daemon: Daemon, job: Handle, pages: int
) -> None:
    with (
        daemon.client.forward(job.number, pages, 0) as forward,
        ThreadPoolExecutor(6) as browsers,
    ):
        address = f"http://127.0.0.1:{forward.local}/page"
        found = list(browsers.map(lambda _: urllib.request.urlopen(address).read(), range(12)))
    assert found == [bytes(range(256)) * 4096] * 12


@pytest.mark.slow
def test_a_forwarded_port_at_which_nobody_listens_closes_its_connections(
    daemon: Daemon, job: Handle
) -> None:
    told: list[str] = []
    with daemon.client.forward(job.number, 9, 0, tell=told.append) as forward:
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{forward.local}/", timeout=30).read()
        until(lambda: told, "the visitor is told")
    assert "port 9" in told[0]


def test_only_the_owner_and_administrators_enter_a_job(daemon: Daemon) -> None:
    daemon.client.set_pool(LEND, shared=True)
    with daemon.client_of("ada") as ada, daemon.client_of("bob") as bob:
        try:
            handle = ada.submit({"name": "hers", "command": ["sleep", "600"], "pool": LEND})
            until(lambda: ada.job("hers").tasks, "it has a task")
            until(lambda: ada.job("hers").tasks[0].status == "running", "it runs")
            assert bob.record(handle.number).name == "hers"
            with pytest.raises(ClientError, match="only its owner and administrators"):
                bob.exec(handle.number, ["true"])
            assert ada.exec(handle.number, ["true"]).code == 0
            assert daemon.client.exec("ada/hers", ["true"]).code == 0
        finally:
            daemon.client.set_pool(LEND, shared=False)
            for user in ("ada", "bob"):
                daemon.client.revoke_token(user)
    acts = [each for each in daemon.client.audit() if each.act == "visit"][-3:]
    assert [(each.user, each.outcome) for each in acts[:2]] == [("bob", "refused"), ("ada", "done")]
    assert acts[1].detail == "kind exec, command true"


@pytest.mark.slow
def test_following_a_job_without_a_terminal_shows_its_output(daemon: Daemon) -> None:
    handle = daemon.sh("echo one; echo two", name="plain")
    handle.wait()
    daemon.sh("echo three; exec sleep 600", name="talks")
    daemon.await_status("talks", "running")
    visitor = subprocess.Popen(
        [*MUSTER, "attach", "talks"], env=environment(daemon.home), stdout=subprocess.PIPE
    )
    assert visitor.stdout is not None
    assert b"three" in visitor.stdout.readline()
    visitor.kill()
    visitor.wait()
    visitor.stdout.close()
