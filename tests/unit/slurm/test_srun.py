"""`srun` within a batch script: its words, file names, and peers without the job's token."""

import socket
import threading

import pytest

from muster.slurm.lines import TaskPeer, dialled, greeted
from muster.slurm.patterns import file_name
from muster.slurm.srun import SrunError, parse


def test_its_words_are_read() -> None:
    step = parse(
        ["-n", "4", "-l", "--cpu-bind=none", "--output", "o-%t", "-w", "a,b", "python", "-n", "x"]
    )
    assert step.argv == ("python", "-n", "x")
    assert (step.ntasks, step.hosts, step.label, step.output) == (4, ("a", "b"), True, "o-%t")
    assert parse(["-N2", "--ntasks-per-node=4", "--", "hostname"]).ntasks == 8
    assert parse(["--mpi=pmix", "--exclusive", "./a"]).ntasks == 0, "in all tasks"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--pty", "bash"], "use muster exec"),
        (["--multi-prog", "conf"], "one step runs one program"),
        (["--frobnicate", "x"], "--frobnicate is not an option that a step can have here"),
        (["-n"], "-n has no value"),
        (["-n", "many", "x"], "'many' is no number"),
        (["-l"], "no command"),
    ],
)
def test_what_cannot_be_a_step_is_refused_in_one_line(words: list[str], told: str) -> None:
    with pytest.raises(SrunError, match=told):
        parse(words)


def test_file_names_are_filled_in() -> None:
    environ = {"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "train", "SLURM_JOB_USER": "ada"}
    assert file_name("%x-%5j_%t.%u%%", environ, "3") == "train-00012_3.ada%"
    array = {**environ, "SLURM_ARRAY_JOB_ID": "10", "SLURM_ARRAY_TASK_ID": "2"}
    assert file_name("%A_%a", array) == "10_2"


@pytest.mark.parametrize("token", ["secret", "guess"])
def test_only_who_knows_the_jobs_token_is_heard_on_either_side(token: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made: list[TaskPeer | None] = []
        thread = threading.Thread(target=lambda: made.append(greeted(listening.accept()[0], "secret")))
        thread.start()
        port = listening.getsockname()[1]
        if token == "secret":
            ours = dialled("127.0.0.1", port, token)
            thread.join()
            assert made[0] is not None
            ours.send(hello=1)
            assert made[0].receive() == {"hello": 1}
            made[0].close()
            ours.close()
            return
        with pytest.raises(ConnectionRefusedError, match="does not know the job's token"):
            dialled("127.0.0.1", port, token)
        thread.join()
    assert made == [None]
