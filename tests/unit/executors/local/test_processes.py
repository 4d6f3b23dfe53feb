"""Tasks as processes: what they get, what they leave behind, and what is said when they cannot be."""

import contextlib
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.unit.executors.local.conftest import PATH, Bench, exists, until


def test_the_environment_is_exactly_the_orders(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "MUSTER_HOME", "OPENBLAS_NUM_THREADS", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, "/leaks")
    environ = PATH | {"LINES": "two\nlines", "ODD": "\udcff=ü", "EMPTY": ""}
    task = bench.order("env", "-0", environ=environ)
    assert bench.exited(task).code == 0
    raw = bench.executor.read_log("1/1/worker-0.log", 0, 100_000).data
    entries = raw.decode("utf-8", "surrogateescape").split("\0")[:-1]
    assert dict(entry.split("=", 1) for entry in entries) == environ


def test_nothing_else_of_the_manager_comes_through(bench: Bench) -> None:
    """No descriptor but the three, nothing to read, and every signal as it is by default."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    streams, rest = bench.order("ls", "/proc/self/fd"), bench.shell("cat; cat /proc/$$/status", index=1)
    assert (bench.exited(streams).code, bench.exited(rest).code) == (0, 0)
    os.close(read)
    os.close(write)
    assert bench.log(streams).split() == ["0", "1", "2", "3"]  # the last is the folder it lists
    (ignored,) = (line.split()[1] for line in bench.log(rest).splitlines() if "SigIgn" in line)
    # The C library keeps signals 32 and 33 to itself; nobody can set them.
    assert not {n for n in signal.valid_signals() if int(ignored, 16) >> (n - 1) & 1}


def test_a_task_leads_a_session_of_its_own(bench: Bench) -> None:
    task = bench.shell("exec sleep 1000")
    pid = bench.started(task).pid
    assert pid is not None
    assert os.getpgid(pid) == os.getsid(pid) == pid


def test_the_order_is_for_the_owners_eyes(bench: Bench) -> None:
    task = bench.order("sleep", "1000", environ=PATH | {"MUSTER_TOKEN": "geheim"})
    pid = bench.started(task).pid
    order = bench.task_folder(task) / "order.json"
    assert order.stat().st_mode & 0o077 == 0
    assert bench.data.joinpath("tasks").stat().st_mode & 0o077 == 0
    for number in (pid, bench.entry(task, "claim")["pid"]):
        assert b"geheim" not in Path(f"/proc/{number}/cmdline").read_bytes()


def test_the_jobs_own_folder_is_made(bench: Bench) -> None:
    task = bench.order("pwd")
    assert bench.exited(task).code == 0
    assert bench.log(task) == f"{bench.folder / 'work'}\n"


def test_a_folder_of_the_users_that_is_missing_is_told_and_not_made(bench: Bench) -> None:
    where = bench.folder / "not" / "yet"
    exited = bench.exited(bench.order("pwd", folder=str(where)))
    assert (exited.code, exited.begun) == (126, False)
    assert exited.error.startswith(f"its folder {where} does not exist; create it")
    assert not where.parent.exists()


def test_output_and_errors_are_in_one_log_in_their_order(bench: Bench) -> None:
    task = bench.shell("echo a; echo b >&2; echo c")
    bench.exited(task)
    assert bench.log(task) == "a\nb\nc\n"


def test_a_signal_reaches_the_whole_group(bench: Bench) -> None:
    task = bench.shell("sleep 1000 & echo child $!; wait")
    bench.started(task)
    child = int(bench.log_of(task, "child").split()[1])
    bench.executor.signal(task, signal.SIGTERM)
    assert bench.exited(task).signal == signal.SIGTERM
    assert not exists(child)


@pytest.mark.parametrize("way", ["", "setsid", "nohup"])
def test_what_a_task_leaves_behind_is_gone_before_its_exit_is_told(bench: Bench, way: str) -> None:
    child_does = "trap '' TERM HUP; echo child $$; echo > pipe; sleep 1000; :"
    task = bench.shell(f'mkfifo pipe; {way} sh -c "$CHILD" & read line < pipe', CHILD=child_does)
    assert bench.exited(task).code == 0
    child = int(bench.log_of(task, "child").split()[1])
    assert not exists(child)


def test_orphans_of_a_living_task_are_taken_note_of(bench: Bench) -> None:
    """They would stay zombies for as long as the task lives."""
    task = bench.shell("(sh -c 'echo orphan $$' &); exec sleep 1000")
    bench.started(task)
    orphan = int(bench.log_of(task, "orphan").split()[1])
    until(lambda: not Path(f"/proc/{orphan}").exists())


def test_commands_that_cannot_be_run_are_told_in_words(bench: Bench) -> None:
    text = bench.folder / "text.txt"
    text.write_text("hello", encoding="ascii")
    script = bench.folder / "script"
    script.write_text("#!/no/such/interpreter\n", encoding="ascii")
    plain = bench.folder / "plain"
    plain.write_bytes(b"\x7fELFnot")
    for path in (script, plain):
        path.chmod(0o755)
    said = {}
    for index, command in enumerate(["pythn", "./nowhere", str(text), str(script), str(plain), "a\0b"]):
        exited = bench.exited(bench.order(command, index=index))
        assert not exited.begun
        said[command] = (exited.code, exited.error)
    assert said["pythn"][0] == 127
    assert "no such command: pythn; not found in PATH=/usr/local/bin" in said["pythn"][1]
    assert "paths are relative to " in said["./nowhere"][1]
    assert said[str(text)] == (
        126,
        f"no permission to run {text}; chmod +x it, or run it with its interpreter",
    )
    assert said[str(script)][0] == 127
    assert "the interpreter" in said[str(script)][1]
    assert said[str(plain)][0] == 126
    assert said["a\0b"][0] == 126


def test_an_empty_command_is_told_in_words(bench: Bench) -> None:
    exited = bench.exited(bench.order())
    assert (exited.code, exited.error) == (126, "the command is empty")


def test_a_folder_that_cannot_be_used_is_told_in_words(bench: Bench) -> None:
    (bench.folder / "file").touch()
    exited = bench.exited(bench.order("true", folder=str(bench.folder / "file" / "below")))
    assert exited.code == 126
    assert exited.error.startswith("cannot use its folder")


def test_a_log_that_cannot_be_written_is_told_in_words(bench: Bench) -> None:
    (bench.data / "logs" / "1").touch()
    exited = bench.exited(bench.order("true"))
    assert exited.code == 126
    assert exited.error.startswith("cannot write its log:")


def test_fifty_tasks_leave_no_process_and_no_descriptor(bench: Bench) -> None:
    bench.exited(bench.shell("exit 0", index=50))  # the first needs the server, which stays
    before = descriptors()
    tasks = [bench.shell("sleep 1000 & exit 5", index=index) for index in range(50)]
    assert {bench.exited(task).code for task in tasks} == {5}
    shims = [bench.entry(task, "claim")["pid"] for task in tasks]
    # Not even zombies are left, of the shims or of what the tasks began.
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in shims))
    until(lambda: descriptors() <= before)
    begun = {bench.entry(task, "begun")["pid"] for task in tasks}
    assert not begun & groups()


def descriptors() -> int:
    """How many this process has open, the one of the count included."""
    return len(list(Path("/proc/self/fd").iterdir()))


def groups() -> set[int]:
    """The process groups that have members; others come and go meanwhile."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found.add(int(path.read_bytes().rpartition(b")")[2].split()[2]))
    return found


def test_without_pidfds_ends_are_found_by_looking(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(pid: int) -> int:
        raise OSError(38, "not in this kernel")

    monkeypatch.setattr(os, "pidfd_open", missing)
    task = bench.shell("exec sleep 1000")
    bench.started(task)
    bench.executor.signal(task, signal.SIGTERM)
    assert bench.exited(task).signal == signal.SIGTERM


def test_a_task_whose_port_a_stranger_has_is_not_started(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        told = bench.exited(bench.order("true", ports=(port,)))
    assert (told.begun, told.code, told.port) == (False, None, port)
    assert told.error == f"MASTER_PORT {port} was taken by another process"


def test_a_task_that_lost_its_port_to_a_stranger_is_not_at_fault(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    wait = "while [ ! -e go ]; do sleep 0.02; done; exit "
    tasks = [bench.order("sh", "-c", wait + code, index=int(code), ports=(port,)) for code in "01"]
    for task in tasks:
        bench.started(task)
    with socket.create_server(("127.0.0.1", port)):
        (bench.folder / "work" / "go").touch()
        done, failed = (bench.exited(task) for task in tasks)
    assert (done.code, done.port) == (0, 0)
    assert (failed.begun, failed.code, failed.port) == (True, None, port)
