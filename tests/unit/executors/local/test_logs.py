"""Logs: kept to a size while they are written, read by offsets that count all bytes ever written."""

import os
from pathlib import Path

import pytest

from muster.executors.local import logs
from muster.executors.local.logs import LogFolder
from tests.unit.executors.local.conftest import Bench

LIMIT = 8192
NAME = "1/1/worker-0.log"


@pytest.fixture(params=["hole", "copy"])
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> LogFolder:
    """On a file system that knows holes, and on one that does not."""
    if request.param == "copy":
        monkeypatch.setattr(logs, "_punch", lambda file, size: False)
    (tmp_path / "1/1").mkdir(parents=True)
    return LogFolder(tmp_path, LIMIT)


def write(folder: LogFolder, first: int, last: int) -> None:
    """Lines of ten bytes, as a task appends them."""
    with folder.place(NAME).open("ab") as file:
        file.write(b"".join(b"%09d\n" % number for number in range(first, last)))


def test_a_log_below_the_limit_is_left_alone(folder: LogFolder) -> None:
    write(folder, 0, 800)
    folder.trim(NAME)
    assert len(folder.read(NAME, 0, 100_000).data) == 8000


def test_the_older_half_goes_and_a_line_says_how_much(folder: LogFolder) -> None:
    write(folder, 0, 1000)
    folder.trim(NAME)
    piece = folder.read(NAME, 0, 100_000)
    first, *lines = piece.data.decode().splitlines()
    assert first == "[muster: 5910 bytes dropped here, the log was above 8192]"
    assert lines == [f"{number:09d}" for number in range(591, 1000)]
    assert piece.next == 10_000
    assert piece.offset > 0


def test_offsets_go_on_counting_over_many_cuts(folder: LogFolder) -> None:
    for hundred in range(100):
        write(folder, 100 * hundred, 100 * hundred + 100)
        folder.trim(NAME)
    end = folder.read(NAME, -10, 100)
    assert (end.data, end.offset, end.next) == (b"000009999\n", 99_990, 100_000)
    assert folder.read(NAME, 99_000, 10).data == b"000009900\n"
    assert len(folder.read(NAME, 0, 10**6).data) <= LIMIT + 100


def test_who_follows_goes_on_where_the_log_goes_on(folder: LogFolder) -> None:
    write(folder, 0, 10)
    seen = folder.read(NAME, 0, 100_000)
    write(folder, 10, 2000)
    folder.trim(NAME)
    missed = folder.read(NAME, seen.next, 100_000)
    assert missed.offset > seen.next
    assert missed.data.startswith(b"[muster: ")
    write(folder, 2000, 2001)
    assert folder.read(NAME, missed.next, 100).data == b"000002000\n"


def test_a_writer_is_not_disturbed(folder: LogFolder) -> None:
    """It keeps its descriptor, and what it writes afterwards is in its place."""
    with folder.place(NAME).open("ab", buffering=0) as file:
        file.write(b"x" * 79 + b"\n" + b"y" * 20_000)
        folder.trim(NAME)
        file.write(b"the end\n")
    assert folder.read(NAME, 20_080, 100).data == b"the end\n"


def test_the_space_is_given_back(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path, 2**20)
    path = folder.place("log")
    path.write_bytes(b"z" * 2**22)
    folder.trim("log")
    assert path.stat().st_blocks * 512 < 2**20


def test_offsets_beyond_the_end_are_the_end(folder: LogFolder) -> None:
    write(folder, 0, 1)
    piece = folder.read(NAME, 1000, 100)
    assert (piece.data, piece.next) == (b"", 10)


@pytest.mark.parametrize("size", [0, -5])
def test_nothing_is_read_where_nothing_is_asked_for(folder: LogFolder, size: int) -> None:
    write(folder, 0, 1)
    assert folder.read(NAME, 0, size).data == b""


def test_links_pipes_and_our_own_files_are_no_logs(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_text("geheim", encoding="ascii")
    (root / "link").symlink_to(secret / "file")
    (root / "folder").symlink_to(secret)
    os.mkfifo(root / "pipe")
    (root / ".log.kept").write_text("{}", encoding="ascii")
    folder = LogFolder(root, LIMIT)
    for name in ("link", "folder/file", "pipe", ".log.kept", "folder"):
        with pytest.raises(LookupError):
            folder.read(name, 0, 100)


def test_a_task_that_prints_too_much_is_cut_when_it_ends(bench: Bench) -> None:
    bench.another(log_limit=LIMIT)
    task = bench.shell("seq 100000")
    assert bench.exited(task).code == 0
    lines = bench.log(task).splitlines()
    assert lines[0].startswith("[muster: ")
    assert lines[-1] == "100000"
    assert len(lines) < 1000


def test_a_task_that_prints_on_and_on_is_cut_while_it_lives(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.executors.local.executor.TRIM_EVERY", 0.05)
    bench.another(log_limit=LIMIT)
    task = bench.shell("seq 100000; exec sleep 1000")
    assert bench.log_of(task, "[muster: ")
    bench.started(task)


def test_what_is_long_over_can_be_pruned_and_the_rest_stays(bench: Bench) -> None:
    old = bench.shell("echo old", number=1)
    young = bench.shell("echo young", number=2)
    living = bench.shell("echo living; exec sleep 1000", number=3)
    bench.exited(old)
    bench.exited(young)
    bench.log_of(living, "living")
    (bench.data / "logs/left").mkdir()
    (bench.data / "logs/left/x.log").touch()
    for top in ("tasks/1", "logs/1", "tasks/3", "logs/3", "logs/left"):
        for path in [bench.data / top, *(bench.data / top).rglob("*")]:
            os.utime(path, (1.0, 1.0))
    assert bench.executor.prune(older_than=1000.0) == 2
    left = sorted(path.name for part in ("tasks", "logs") for path in (bench.data / part).iterdir())
    assert left == ["2", "2", "3", "3"]
    assert bench.log(young) == "young\n"
    bench.executor.attach([old])
    bench.heard.clear()
    assert not bench.exited(old).begun
