"""Jobs from their submission to their end, as a person at a terminal sees them."""

import os
import socket
import sys
from pathlib import Path

import pytest

import muster
from tests.live.daemons import LONG, Daemon, until

TF_READER = """
import json, os, socket, time

config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]
everybody = sum(config["cluster"].values(), [])
host, port = config["cluster"][kind][index].rsplit(":", 1)
with socket.create_server((host, int(port))) as mine:
    for address in everybody:
        while True:
            try:
                socket.create_connection(address.rsplit(":", 1)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
    for _ in everybody:
        mine.accept()[0].close()
print(f"{kind} {index} met {len(everybody)}")
"""

TORCH = """
import torch, torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print(f"{dist.get_rank()} of {dist.get_world_size()}: {total.item():g}")
dist.destroy_process_group()
"""


def test_a_job_is_followed_to_its_end(daemon: Daemon) -> None:
    done = daemon.muster(
        "run", "--follow", "-y", "--name", "hello", "--", "sh", "-c", "echo hello $RANK"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1/worker-0 | hello 0\n"
    assert "succeeded" in done.stderr


def test_a_job_that_fails_is_told_with_its_exit_code_and_last_lines(daemon: Daemon) -> None:
    line = "echo beginning; echo the disk is on fire >&2; exit 7"
    done = daemon.muster("run", "--wait", "-y", "--name", "fails", "--", "sh", "-c", line)
    assert done.returncode == 100
    assert "worker-0 ended with exit code 7" in done.stderr
    assert "the disk is on fire" in done.stderr
    record = daemon.record("fails")
    assert (record.status, record.exit_code, record.failures) == ("failed", 7, 1)


def test_a_job_that_is_stopped_is_cancelled(daemon: Daemon) -> None:
    daemon.sh("echo up; exec sleep 600", name="endless")
    daemon.await_status("endless", "running")
    assert daemon.muster("stop", "-y", "endless").returncode == 0
    assert daemon.muster("wait", "endless").returncode == 103
    (task,) = daemon.detail("endless").tasks
    assert task.signal == 15


def test_what_is_not_there_is_not_found(daemon: Daemon) -> None:
    for words in (["show", "nobody"], ["stop", "-y", "nobody"]):
        done = daemon.muster(*words)
        assert done.returncode == 102, words
        assert "nobody" in done.stderr


def test_what_a_job_prints_is_seen_while_it_runs(daemon: Daemon) -> None:
    handle = daemon.sh("echo one; until test -e go; do sleep 0.05; done; echo two", name="talks")
    lines = handle.logs()
    assert next(lines) == "1/worker-0 | one"
    daemon.await_status("talks", "running")
    (daemon.work("talks") / "go").touch()
    assert list(lines) == ["1/worker-0 | two"]


def test_tasks_of_a_gang_find_each_other_by_tf_config(daemon: Daemon) -> None:
    script = daemon.work("tf") / "reader.py"
    script.write_text(TF_READER, encoding="utf-8")
    path = daemon.work("tf") / "tf.yaml"
    path.write_text(
        f"""
command: [{sys.executable}, -S, reader.py]
folder: .
roles:
  worker: {{count: 3}}
  server: {{count: 1, cores: 0.1}}
""",
        encoding="utf-8",
    )
    done = daemon.muster("run", "-y", "--wait", path)
    assert done.returncode == 0, done.stderr
    said = set(daemon.client.logs("tf"))
    assert {line.partition(" | ")[2] for line in said if "chief" in line} == {"chief 0 met 4"}
    assert {line.partition(" | ")[2] for line in said if "worker " in line} == {
        "worker 0 met 4",
        "worker 1 met 4",
    }


def test_a_shell_line_runs_as_a_gang_and_nothing_else_gets_a_shell(daemon: Daemon) -> None:
    path = daemon.work("piped") / "piped.yaml"
    line = 'yes "$RANK of $WORLD_SIZE" | head -n 100 | sort | uniq -c | tr -s " "'
    path.write_text(f"shell: true\ndevices: 2\ncommand: {line!r}\n", encoding="utf-8")
    done = daemon.muster("run", "-y", "--wait", path)
    assert done.returncode == 0, done.stderr
    assert sorted(daemon.client.logs("piped")) == [
        "1/worker-0 |  100 0 of 2",
        "1/worker-1 |  100 1 of 2",
    ]
    handle = daemon.submit("echo", "$HOME", ";", "id", name="words")
    assert handle.wait(60).status == "succeeded"
    assert list(handle.logs("worker-0")) == ["$HOME ; id"]


def test_an_unmodified_torch_script_runs_as_a_gang(daemon: Daemon) -> None:
    pytest.importorskip("torch")
    script = daemon.work("torch") / "train.py"
    script.write_text(TORCH, encoding="utf-8")
    path = daemon.work("torch") / "torch.yaml"
    env = "{GLOO_SOCKET_IFNAME: lo}"
    path.write_text(
        f"command: [{sys.executable}, {script}]\ndevices: 2\nenv: {env}\n", encoding="utf-8"
    )
    done = daemon.muster("run", "-y", "--wait", path)
    assert done.returncode == 0, done.stderr
    assert sorted(daemon.client.logs("torch")) == [
        "1/worker-0 | 0 of 2: 3",
        "1/worker-1 | 1 of 2: 3",
    ]


def test_the_manager_stays_out_of_a_jobs_environment(daemon: Daemon) -> None:
    os.environ["MUSTER_SECRET_OF_MINE"] = "x"
    try:
        handle = daemon.submit("env", name="bare")
    finally:
        del os.environ["MUSTER_SECRET_OF_MINE"]
    handle.wait(60)
    environ = dict(line.split("=", 1) for line in handle.logs("worker-0") if "=" in line)
    assert {"PATH", "RANK", "MUSTER_JOB"} <= environ.keys()
    assert not environ.keys() & {"MUSTER_SECRET_OF_MINE", "MUSTER_HOME"}
    assert environ["VIRTUAL_ENV"] == sys.prefix, "that of who submitted it"
    assert not {name for name in environ if name.startswith("PYTEST")}


def test_a_daemon_in_this_process_runs_stops_and_tells(tmp_path: Path) -> None:
    with muster.local(devices=2) as client:
        handle = client.submit({"command": ["sh", "-c", "echo here"], "name": "one"})
        assert handle.wait(60).status == "succeeded"
        assert list(handle.logs("worker-0")) == ["here"]
        endless = client.submit({"command": ["sleep", "600"], "name": "two", "devices": 2})
        until(lambda: endless.record().status == "running")
        waits = client.submit({"command": ["true"], "name": "three"})
        assert waits.record().status == "waiting"
        endless.stop()
        assert endless.wait(60).status == "cancelled"
        assert waits.wait(60).status == "succeeded"
        left = client.submit(
            {"command": ["sh", "-c", "echo $$ > pid; exec sleep 600"], "folder": str(tmp_path)}
        )
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        assert left.record().status in ("starting", "running")
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists(), "what nobody could take up again must not live on"


def test_a_gang_whose_port_a_stranger_took_meets_at_another(daemon: Daemon) -> None:
    """The port is bound seconds after it was chosen; who is quicker must not cost the job its life."""
    where = daemon.work("met")
    script = """
import os, pathlib, socket, time
port = int(os.environ["MASTER_PORT"])
draft = pathlib.Path("draft")
draft.write_text(str(port))
draft.rename("port")
while not pathlib.Path("go").exists():
    time.sleep(0.01)
socket.create_server(("127.0.0.1", port)).close()
pathlib.Path("met").write_text(str(port))
"""
    job = daemon.submit(sys.executable, "-S", "-c", script, name="met")
    port = int(
        until(lambda: (where / "port").exists() and (where / "port").read_text(encoding="ascii"))
    )
    with socket.create_server(("127.0.0.1", port)):
        (where / "go").touch()
        assert job.wait(LONG).status == "succeeded"
    assert int((where / "met").read_text(encoding="ascii")) != port
    told = [change.text for change in daemon.client.events(job.number)]
    assert f"worker-0 ended: MASTER_PORT {port} was taken by another process" in told


def test_a_job_above_its_memory_is_told_so(daemon: Daemon) -> None:
    if any("memory" in caveat for caveat in daemon.client.status().caveats):
        pytest.skip("memory cannot be limited here")
    hungry = "x = bytearray(500 << 20); print('unharmed')"
    job = daemon.submit(sys.executable, "-S", "-c", hungry, name="hungry", memory="100MB")
    record = job.wait(LONG)
    assert record.status == "failed"
    assert "worker-0 was killed by the kernel: out of memory (limit 100 MB)" in (record.error or "")
    assert list(daemon.client.logs(job.number, "worker-0")) == []
