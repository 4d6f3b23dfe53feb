"""`muster run`: from words to a job, its plan, the question, and what follows."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.cli.jobs.submitting.request import interpreter
from muster.client import Client
from tests.unit.cli.invoke import muster
from tests.unit.cli.lab import STARTS_NOW, Lab

WAITS = replace(
    STARTS_NOW, starts_now=False, placement="", reason="no device is free", start=None, finish=None
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script, in which the user stands."""
    (tmp_path / "train.py").write_text("print('hello')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTUAL_ENV", "")
    return tmp_path


def submitted(lab: Lab, *words: object) -> dict[str, Any]:
    """The job that a command hands over."""
    muster("run", "-y", *words)
    (_, asked, foreseen), (_, sent, record) = lab.requests[-2:]
    assert (asked, sent) == ("/v1/forecast", "/v1/jobs")
    assert foreseen == record
    assert isinstance(record, dict)
    return record


def test_a_script_is_run_by_the_users_python_where_they_stand(lab: Lab, here: Path) -> None:
    record = submitted(lab, "train.py", "--", "--lr", "0.1")
    assert record["command"][1:] == ["train.py", "--lr", "0.1"]
    assert Path(record["command"][0]).name.startswith("python")
    assert (record["name"], record["folder"]) == ("train", str(here))


def test_what_a_webhook_is_told_is_repeated_or_joined_by_commas(lab: Lab, here: Path) -> None:
    told = ("--notify-on", "failed,preempted", "--notify-on", "waiting")
    record = submitted(lab, "--notify", "https://hooks.example.org/x", *told, "train.py")
    assert record["notify_on"] == ["failed", "preempted", "waiting"]


def test_the_python_of_an_active_environment_goes_before_that_of_the_path(tmp_path: Path) -> None:
    for folder in ("venv/bin", "path"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "python").touch(mode=0o755)
    venv, path = str(tmp_path / "venv"), str(tmp_path / "path")
    assert interpreter({"VIRTUAL_ENV": venv, "PATH": path}) == f"{venv}/bin/python"
    assert interpreter({"PATH": path}) == f"{path}/python"
    assert interpreter({"PATH": str(tmp_path)}) == sys.executable


def test_a_wrapper_on_the_path_is_seen_through(tmp_path: Path) -> None:
    """What it needs of the user's environment, the job will not have."""
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    assert interpreter({"PATH": str(tmp_path)}) == sys.executable


def test_any_program_can_be_run(lab: Lab, here: Path) -> None:
    (here / "train.sh").touch(mode=0o755)
    record = submitted(lab, "--", "./train.sh", "a", "-b")
    assert record["command"] == ["./train.sh", "a", "-b"]
    assert record["name"] == "train"


def test_options_say_what_the_job_asks_for(
    lab: Lab, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEED", "7")
    words = "train.py -d 1..4 --name a --pool p --priority 5 --elastic restart --env A=b=c --env SEED"
    record = submitted(lab, *words.split(), "--folder", here.parent)
    assert record["devices"] == "1..4"
    assert (record["name"], record["pool"], record["priority"]) == ("a", "p", 5)
    assert record["env"] == {"A": "b=c", "SEED": "7"}
    assert (record["elastic"], record["folder"]) == ("restart", str(here.parent))
    assert record["command"][1] == str(here / "train.py")


def test_a_job_without_devices_can_be_given_cores_and_memory(lab: Lab, here: Path) -> None:
    record = submitted(lab, "train.py", "-d", "0", "--cores", "0.5", "--memory", "2GB")
    assert (record["devices"], record["cores"], record["memory"]) == ("0", "0.5", "2GB")
    (need,) = {spec.need for spec in lab.service.entries[14].job.roles}
    assert (need.devices, need.millicores, need.memory) == (0, 500, 2 * 10**9)


def test_any_field_of_a_job_file_can_be_set(lab: Lab, here: Path) -> None:
    words = ("--set", "locality.widest=node", "--set", "any_of=[V100, P100]", "--set", "failures=3")
    submitted(lab, "train.py", *words)
    job = lab.service.entries[14].job
    assert (job.locality.widest.word, job.device_types) == ("node", ("V100", "P100"))
    assert job.program.failures == 3


def test_a_job_takes_along_what_finds_its_programs_and_no_secret(
    lab: Lab, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "bin").mkdir()
    (here / "bin/train").touch(mode=0o755)
    for name, text in (("PATH", f"{here}/bin"), ("CONDA_PREFIX", "/conda"), ("API_TOKEN", "geheim")):
        monkeypatch.setenv(name, text)
    record = submitted(lab, "--", "train")
    assert record["origin"]["executable"] == f"{here}/bin/train"
    env = record["origin"]["env"]
    assert (env["PATH"], env["CONDA_PREFIX"]) == (f"{here}/bin", "/conda")
    assert "API_TOKEN" not in env
    assert "HOME" not in env


def test_variables_of_a_kind_are_taken_along_together(
    lab: Lab, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", "/hf")
    monkeypatch.setenv("HF_TOKEN", "mine")
    assert submitted(lab, "train.py", "--env", "HF_*")["env"] == {"HF_HOME": "/hf", "HF_TOKEN": "mine"}


NOT_HERE = {
    "a command": (("--", "torchrn", "a.py"), "command: no such command: torchrn (PATH of the subm"),
    "a program": (("--", "./no.sh"), "command: no such command: ./no.sh (paths count from /"),
    "a folder": (("train.py", "--folder", "/not/there"), "folder: /not/there does not exist; create"),
    "a file as folder": (("train.py", "--folder", "train.py"), "train.py is not a folder"),
    "a command in the job's own PATH": (
        ("--env", "PATH=/not/there", "--", "python", "a.py"),
        "no such command: python (PATH of the submission: /not/there)",
    ),
}


@pytest.mark.parametrize(("words", "problem"), NOT_HERE.values(), ids=NOT_HERE)
def test_what_this_machine_lacks_is_told_at_submission(
    words: tuple[str, ...], problem: str, lab: Lab, here: Path
) -> None:
    result = muster("run", "-y", *words, code=2)
    assert problem in result.stderr
    assert "/v1/jobs" not in lab.paths("POST")


def test_a_job_or_a_path_to_resume_from(lab: Lab, here: Path) -> None:
    assert submitted(lab, "train.py", "--resume-from", "12")["resume_from"] == "12"
    (here / "saved").mkdir()
    record = submitted(lab, "train.py", "--resume-from", "./saved")
    assert record["resume_from"] == str(here / "saved")
    said = muster("run", "train.py", "--resume-from", "./missing", code=2)
    assert "--resume-from: ./missing does not exist" in said.stderr


def test_servers_stand_beside_the_workers(lab: Lab, here: Path) -> None:
    roles = submitted(lab, "train.py", "-d", "V100:1..4", "--servers", "2")["roles"]
    assert roles["worker"] == {"count": "1..4", "devices": "V100:1"}
    assert roles["server"]["count"] == "2"


def test_a_job_file_needs_nothing_more_and_options_override_it(lab: Lab, here: Path) -> None:
    file = here / "job.yaml"
    file.write_text("command: python train.py\npool: a\nenv: {SEED: 1, HOME: null}\n", encoding="utf-8")
    record = submitted(lab, "job.yaml", "--pool", "b")
    assert (record["name"], record["pool"], record["folder"]) == ("job", "b", str(here))
    assert record["env"] == {"SEED": "1", "HOME": os.environ["HOME"]}


def test_the_same_script_may_run_several_times_at_once(lab: Lab, here: Path) -> None:
    """Live jobs have names of their own, so those called after their script are numbered."""
    assert [submitted(lab, "train.py")["name"] for _ in range(3)] == ["train", "train-2", "train-3"]
    assert submitted(lab, "train.py", "--name", "train")["name"] == "train"


REFUSED = {
    "a variable that is not there": ("train.py --env NOT_THERE_7", "NOT_THERE_7 is not set here"),
    "a variable without a name": ("train.py --env =1", "has no name"),
    "a script that is not there": ("no.py", "does not exist"),
    "arguments for a file": ("job.yaml -- --lr 1", "takes no arguments"),
    "nothing at all": ("train.py -d 0", "0 needs cores or memory; add for example --cores 4"),
    "a field without a value": ("train.py --set locality", "is not FIELD=VALUE"),
    "devices that are none": ("train.py -d four --servers 1", "'four' has no count"),
}


@pytest.mark.parametrize(("words", "problem"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_said_before_the_daemon_is_asked(
    words: str, problem: str, lab: Lab, here: Path
) -> None:
    result = muster("run", *words.split(), code=2)
    assert problem in result.stderr
    assert not lab.requests
    assert muster("run", "--dry-run", *words.split(), code=255).stderr == result.stderr


def test_a_file_with_every_field_wrong_costs_a_line_for_each(lab: Lab, here: Path) -> None:
    (here / "job.yaml").write_text(
        "command: a && b\ndevices: 8..1\npriority: high\nmemory: 16\nlocality: nod\ngrce: 1s\n",
        encoding="utf-8",
    )
    lines = muster("run", "job.yaml", code=2).stderr.splitlines()
    assert [line.split(":")[:3] for line in lines] == [
        ["muster", " job.yaml", str(number)] for number in range(1, 7)
    ]
    assert "did you mean 'grace'?" in lines[5]


def test_what_the_daemon_finds_wrong_costs_a_line_for_each(lab: Lab, here: Path) -> None:
    (here / "job.yaml").write_text("command: python train.py\n", encoding="utf-8")
    words = ("--devices", "8..1", "--pool", "a b")
    lines = muster("run", "job.yaml", *words, code=2).stderr.splitlines()
    assert [line.split(": ")[:3] for line in lines] == [
        ["muster", "job.yaml", "devices"],
        ["muster", "job.yaml", "pool"],
    ]


def test_the_plan_is_shown_before_anything_is_asked(lab: Lab, here: Path, answering: None) -> None:
    lab.service.foreseen = WAITS
    result = muster("run", "train.py", code=1, input="n\n")
    for part in ("plan     4 workers, ring", "start    unknown: no device is free", "finish   unknown"):
        assert part in result.stdout
    assert "Submit it? [y/N]" in result.stderr
    assert "nothing was submitted" in result.stderr
    assert lab.paths("POST") == ["/v1/forecast"]


def test_yes_is_an_answer(lab: Lab, here: Path, answering: None, seen: None) -> None:
    result = muster("run", "train.py", input="y\n")
    assert "job 14 (train) submitted" in result.stdout
    assert "logs: muster logs -f 14" in result.stdout.splitlines()[-1]


def test_limits_that_are_not_enforced_are_told(lab: Lab, here: Path) -> None:
    caveat = "memory limits are not enforced: no cgroups"
    lab.service.foreseen = replace(STARTS_NOW, caveats=(caveat,))
    assert muster("run", "-y", "train.py", "--memory", "1GB").stderr == f"note: {caveat}\n"


@pytest.mark.parametrize(("starts", "code"), [(True, 0), (False, 1)])
def test_a_dry_run_tells_by_its_exit_code_whether_it_would_start(
    starts: bool, code: int, lab: Lab, here: Path
) -> None:
    lab.service.foreseen = STARTS_NOW if starts else WAITS
    told = muster("run", "train.py", "--dry-run", "-o", "json", code=code).stdout
    assert json.loads(told)["starts_now"] is starts
    assert lab.paths("POST") == ["/v1/forecast"]


def test_what_can_never_run_is_not_submitted(lab: Lab, here: Path) -> None:
    lab.service.foreseen = replace(WAITS, problem="can never run: asks for 99 devices, there are 8")
    for more, code in ((), 2), (("--dry-run",), 255):
        result = muster("run", "train.py", *more, code=code)
        assert result.stderr == "muster: train: can never run: asks for 99 devices, there are 8\n"
    assert set(lab.paths("POST")) == {"/v1/forecast"}


def test_options_of_the_script_without_dashes_before_them_are_explained(lab: Lab, here: Path) -> None:
    told = " ".join(muster("run", "train.py", "--lr", "0.1", code=2).stderr.split())
    assert "No such option: --lr; put the script's own options after --" in told


ENDS = {"succeeded": 0, "failed": 100, "cancelled": 103}


@pytest.mark.parametrize(("status", "code"), ENDS.items())
def test_following_a_job_ends_as_the_job_does(status: str, code: int, lab: Lab, here: Path) -> None:
    def life(number: int) -> None:
        lab.service.start(number)
        lab.service.print(number, "1/worker-0", b"step 1\nstep 2\n")
        lab.service.end(number, status)

    lab.service.plays = life
    result = muster("run", "-f", "-y", "train.py", code=code)
    assert result.stdout.splitlines() == ["1/worker-0 | step 1", "1/worker-0 | step 2"]
    assert f"job 14 (train) {status}" in result.stderr


def test_leaving_a_job_leaves_it_running(lab: Lab, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "logs", interrupted)
    result = muster("run", "-f", "-y", "train.py", code=101)
    assert "detached; the job keeps running: `muster logs -f 14`, `muster stop 14`" in result.stderr


def test_waiting_for_a_job_sees_it_to_its_end(lab: Lab, here: Path) -> None:
    lab.service.plays = lambda number: lab.service.end(number)
    told = json.loads(muster("run", "--wait", "-y", "-o", "json", "train.py").stdout)
    assert [job["status"] for job in told] == ["succeeded"]


def test_the_answer_of_a_submission_is_the_job(lab: Lab, here: Path) -> None:
    assert json.loads(muster("run", "-y", "-o", "json", "train.py").stdout)["number"] == 14


def test_a_future_that_is_not_played_yet_is_not_said_to_be_unknown(lab: Lab, here: Path) -> None:
    lab.service.foreseen = replace(WAITS, late=True)
    told = muster("run", "train.py", "--dry-run", code=1).stdout
    assert "start    not played yet; see muster ps: no device is free" in told
    assert "finish   not played yet; see muster ps" in told
