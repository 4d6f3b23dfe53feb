"""The command as a user sees it: its words, its exit codes, its output."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from muster.runtime.launch.command import _environ, parse
from muster.runtime.launch.curve import draw
from muster.runtime.launch.history import History
from muster.runtime.launch.launcher import LaunchOutcome
from muster.runtime.launch.screen import describe_change, describe_progress, summary
from muster.wire.tasks.messages import Changed, Message, Saved, StepDone, Straggling

TASK = Path(__file__).with_name("pretended_task.py")
LONG = 60.0


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "muster.runtime", *args]


def test_options_before_the_script_are_ours_and_after_it_its_own() -> None:
    options = parse(
        ["--workers", "2", "--at", "300=1", "--at", "100=3", str(TASK), "--workers", "9", "-x"]
    )
    assert options.workers == 2
    assert options.args == ["--workers", "9", "-x"]
    assert options.at == [(100, 3), (300, 1)]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["no_such.py"], "no such script: no_such.py"),
        (["--workers", "0", str(TASK)], "--workers: '0' is not a whole number of at least 1"),
        (["--workers", "two", str(TASK)], "--workers: 'two'"),
        (["--at", "100", str(TASK)], "--at: '100' is not STEP=WORKERS"),
        (["--at", "100=0", str(TASK)], "--at: '100=0' is not STEP=WORKERS"),
        (["--at", "5=2", "--at", "5=3", str(TASK)], "--at names the same step twice"),
        (["--deadline", "nan", str(TASK)], "--deadline: 'nan'"),
        (["--deadline", "-1", str(TASK)], "--deadline"),
        (["--devices", "cuda:0,tpu", str(TASK)], "--devices: 'cuda:0,tpu'"),
        (["--devices", "cpu,", str(TASK)], "--devices"),
        (["--sync", "gossip", str(TASK)], "--sync"),
        (["--sync", "dedicated", str(TASK)], "--sync dedicated needs --servers"),
        (["--plot", "no/such/folder/x.png", str(TASK)], "--plot: no folder"),
        (["--log-dir", str(TASK), str(TASK)], "is a file"),
        (["--resume-from", "no/such", str(TASK)], "--resume-from: no/such does not exist"),
        ([], "train.py"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(args)
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["--help"])
    assert caught.value.code == 0
    assert "--at 100=3 --at 300=2 train.py" in capsys.readouterr().out


def test_a_whole_run(tmp_path: Path) -> None:
    args = [
        "--workers",
        "1",
        "--at",
        "20=2",
        "--log-dir",
        str(tmp_path / "logs"),
        str(TASK),
        str(tmp_path),
        "300",
    ]
    done = subprocess.run(command(*args), capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stderr
    # The first worker's prints come bare, the others' with their names.
    assert done.stdout.splitlines() == ["hello from worker-0", "[worker-1] hello from worker-1"]
    assert (tmp_path / "logs" / "worker-1.log").read_text() == "hello from worker-1\n"
    assert "2 workers, resized, paused for 250 ms" in done.stderr
    assert "finished at step 300" in done.stderr
    assert "loss by step" in done.stderr


def test_a_failed_run_says_why(tmp_path: Path) -> None:
    (tmp_path / "fail-worker-0").touch()
    done = subprocess.run(
        command("--quiet", str(TASK), str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["a trace", "worker-0: ValueError: the loss is a mean"]


def test_control_c_stops_all(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("--workers", "2", str(TASK), str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # As at a terminal: whoever is started in the background of a shell ignores Ctrl-C.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as job:
        assert job.stdout
        assert job.stderr
        # "formation 1 ...": all tasks are up.
        while not job.stderr.readline().startswith("formation 1"):
            pass
        job.send_signal(signal.SIGINT)
        _, said = job.communicate(timeout=LONG)
    assert job.returncode == 130
    assert "stopping after the current step" in said
    for name in ("worker-0", "worker-1"):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / name).read_text()), 0)


def test_a_training_that_was_complete_already_is_said_to_be() -> None:
    history = History()
    assert "without reporting a step" in summary(LaunchOutcome("", history))[0]
    history.note(Changed("worker-0", 1, 8, ("worker-0",), 0.0, "start"), 0.0)
    assert summary(LaunchOutcome("", history)) == ["already complete at step 8: nothing left to train"]


def test_a_script_is_told_what_to_resume_from(tmp_path: Path) -> None:
    options = parse(["--resume-from", str(tmp_path), str(TASK)])
    assert _environ(options.resume_from)["MUSTER_RESUME_FROM"] == str(tmp_path)


def test_the_summary_tells_what_happened() -> None:
    history = History()
    messages: list[Message] = [
        Changed("worker-0", 1, 0, ("worker-0", "worker-1", "server-0"), 0.0, "start"),
        StepDone("worker-0", 1, 1, 0, 6, 4.0, 0, 0, 0, 0),
        StepDone("worker-1", 1, 1, 0, 2, 4.0, 0, 0, 0, 0),
        StepDone("worker-1", 1, 1, 0, 2, 4.0, 0, 0, 0, 0),  # said twice, counted once
        Changed("worker-0", 2, 2, ("worker-0",), 0.012, "failure", ("worker-1", "server-0"), "ring"),
        Straggling("worker-0", "worker-1", 1, 1, 3.21),
        StepDone("worker-0", 2, 2, 1, 8, 2.0, 0, 0, 0, 0),
        Saved("worker-0", 2, "/data/step-2", 0.1),
    ]
    for clock, message in enumerate(messages):
        history.note(message, float(clock))
    history.lost["worker-1"] = "signal 9"
    # 6 + 2 + 8 = 16 samples; the first report at 1 s, the last at 6 s: 16 / 5 = 3.2 a second.
    assert history.samples == 16
    assert history.mean_rate == pytest.approx(3.2)
    assert summary(LaunchOutcome("", history))[:6] == [
        "finished at step 2, epoch 1, loss 2; 16 samples in 5.0 s, 3/s",
        "  formation 1 at step 0: 2 workers and 1 server, started",
        "  formation 2 at step 2: 1 worker, after a failure, lost worker-1, server-0, "
        "paused for 12 ms, ring",
        "  lost worker-1: signal 9",
        "  worker-1 was 3.2 times slower per sample at step 1",
        "  1 checkpoint, the last at step 2: /data/step-2",
    ]
    # All 16 samples were reported within the last 10 s; 6 - 1 = 5 s have passed since the first.
    assert describe_progress(history, 6.0) == (
        "step 2 · epoch 1 · loss 2 · 3 samples/s · 1 worker · formation 2"
    )
    assert describe_change(history.changes[0]).endswith("started")


def test_a_curve_falls_from_the_left_to_the_right() -> None:
    lines = draw({step: 10.0 - step for step in range(1, 9)}, width=4, height=2)
    # 8 points in 8 columns and 8 rows of dots: a diagonal, from the top left to the bottom right.
    # Dots (0, 0) and (1, 1) are bits 01 and 10 of the first cell, U+2811; (2, 2) and (3, 3) are
    # bits 04 and 80 of the second, U+2884.
    assert lines == ["9 │⠑⢄", "2 │⠀⠀⠑⢄", "  └────", "   1  8"]


def test_a_curve_of_nothing_is_nothing() -> None:
    assert draw({}) == []
    assert draw({1: float("nan"), 2: float("inf"), 3: 1.0}) == []
    assert len(draw({1: 2.0, 5: 2.0})) == 10
