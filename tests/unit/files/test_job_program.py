"""How a job is run, stopped and run again, as its file says it."""

from pathlib import Path

import pytest

from muster.files import load_job
from muster.files.job.job_file import job_of
from muster.files.source.faults import FaultsError
from muster.model.job import Job, Program


def load(tmp_path: Path, text: str) -> Job:
    """The job of this text."""
    path = tmp_path / "train.yaml"
    path.write_text(text)
    return load_job(path)


def lines_of(tmp_path: Path, text: str) -> list[str]:
    """What is wrong with this text, line by line."""
    with pytest.raises(FaultsError) as caught:
        load(tmp_path, text)
    return [line.removeprefix(f"{tmp_path}/train.yaml:") for line in caught.value.lines]


def test_every_field(tmp_path: Path) -> None:
    text = """
command: make && exec ./train > out
shell: true
folder: /srv/train
env: {LOG_LEVEL: debug, SEED: 007, FLAG: no}
work: 1000
application: resnet
elastic: restart
sync: sharded
owners: update
grace: 2m
checkpoint_signal: SIGUSR1
checkpoint_grace: 10s
finish_grace: 20m
failures: 2
losses: 5
resume_from: last
"""
    job = load(tmp_path, text)
    assert job.command == ("make && exec ./train > out",)
    assert (job.work, job.application, job.restarts, job.pause) == (1000.0, "resnet", True, 30.0)
    assert job.program == Program(
        folder="/srv/train",
        environ=(("LOG_LEVEL", "debug"), ("SEED", "007"), ("FLAG", "no")),
        shell=True,
        grace=120.0,
        checkpoint_signal="SIGUSR1",
        checkpoint_grace=10.0,
        finish_grace=1200.0,
        failures=2,
        losses=5,
        sync="sharded",
        owners="update",
        resume_from="last",
    )


def test_nothing_given_is_the_programs_own_default(tmp_path: Path) -> None:
    job = load(tmp_path, "command: a\n")
    assert job.program == Program()
    assert (job.restarts, job.work, job.application) == (False, None, None)


@pytest.mark.parametrize(
    ("fields", "pause"),
    [("", 1.0), ("elastic: live", 1.0), ("elastic: restart", 30.0), ("pause: 5s", 5.0)],
)
def test_the_pause_goes_with_how_it_is_resized(tmp_path: Path, fields: str, pause: float) -> None:
    assert load(tmp_path, f"command: a\n{fields}\n").pause == pause


@pytest.mark.parametrize(
    ("fields", "resumes"),
    [
        ("", False),
        ("checkpoint_signal: SIGUSR1", True),
        ("elastic: restart", True),
        ("resumes: true", True),
        ("checkpoint_signal: SIGUSR1\nresumes: false", False),
    ],
)
def test_a_job_starts_over_unless_it_can_save_its_work(
    tmp_path: Path, fields: str, resumes: bool
) -> None:
    assert load(tmp_path, f"command: a\n{fields}\n").resumes is resumes


def test_a_folder_counts_from_the_files(tmp_path: Path) -> None:
    assert load(tmp_path, "command: a\nfolder: work\n").program.folder == str(tmp_path / "work")


@pytest.mark.parametrize("nothing", ["", "~", "null"])
def test_a_variable_may_wait_for_its_value(tmp_path: Path, nothing: str) -> None:
    job = load(tmp_path, f"command: a\nenv:\n  GIVEN: x\n  LATER: {nothing}\n")
    assert job.program.environ == (("GIVEN", "x"),)


def test_a_path_to_resume_from_counts_from_the_files_folder(tmp_path: Path) -> None:
    job = load(tmp_path, "command: a\nresume_from: ./saved\n")
    assert job.program.resume_from == str(tmp_path / "saved")
    with pytest.raises(FaultsError, match="must be a job or an absolute path"):
        job_of({"command": "a", "resume_from": "./saved"})


def test_a_shell_takes_several_lines_and_nothing_is_split(tmp_path: Path) -> None:
    job = load(tmp_path, "shell: true\ncommand: |\n  cd /tmp\n  echo 'a b' | wc\n")
    assert job.command == ("cd /tmp\necho 'a b' | wc",)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ("shell: maybe", "2: shell: 'maybe' is neither true nor false"),
        ("folder: ''", "2: folder: is empty"),
        ("env: [A]", "2: env: must be a mapping of names to values, for example {LOG_LEVEL: debug}"),
        ("env: {1A: x}", "2: env: '1A' is not a variable's name; write for example LOG_LEVEL"),
        ("env: {A: [x]}", "2: env: A must be one value, not a list"),
        ("elastic: restrat", "2: elastic: 'restrat' is not a way to resize (did you mean 'restart'?)"),
        ("sync: rings", "2: sync: 'rings' is not a way to synchronise (did you mean 'ring'?)"),
        ("sync: dedicated", "2: sync: dedicated needs servers; add roles.server"),
        (
            "owners: all",
            "2: owners: 'all' is not a part of an owner; choose from: reduce, update",
        ),
        (
            "checkpoint_signal: USR1",
            "2: checkpoint_signal: 'USR1' is not a signal for a checkpoint (did you mean 'SIGUSR1'?)",
        ),
        ("grace: 30", "2: grace: '30' has no unit; write for example 2h, 1h30m, 45s or 250ms"),
        ("failures: -1", "2: failures: must be at least 0, not -1"),
        ("losses: any", "2: losses: 'any' is not a whole number; write for example 4"),
        ("work: 0", "2: work: must be at least 1, not 0"),
        ("pool: ~", "2: pool: has no value; add one or remove the line"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, fields: str, line: str) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(f"command: a\n{fields}\n")
    with pytest.raises(ValueError, match=r"train\.yaml") as caught:
        load_job(path)
    assert str(caught.value) == f"{path}:{line}"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("[make, x]", "must be text where shell is true, for example make && ./train"),
        ("' '", "is empty; write for example make && ./train"),
    ],
)
def test_a_shell_is_given_text(tmp_path: Path, command: str, problem: str) -> None:
    assert lines_of(tmp_path, f"shell: true\ncommand: {command}\n") == [f"2: command: {problem}"]


def test_a_line_for_everything_that_is_wrong(tmp_path: Path) -> None:
    text = "devcies: 4\nmemory: 16\ngrace: soon\n"
    assert lines_of(tmp_path, text) == [
        "1: devcies: unknown field (did you mean 'devices'?)",
        "2: memory: '16' has no unit; write for example 24GB or 512MiB",
        "3: grace: 'soon' is not a time; write for example 2h, 1h30m, 45s or 250ms",
        "1: command: is missing; write for example python train.py",
    ]


def test_a_line_for_everything_that_does_not_go_together(tmp_path: Path) -> None:
    text = "command: a\ndevices: 2..4\ngang: 3\nmodel: resnet5\nsync: dedicated\n"
    assert [line.split(":")[1].strip() for line in lines_of(tmp_path, text)] == [
        "gang",
        "model",
        "sync",
    ]
